"""Files of stored trajectories, a JSON record a line: read with a check of every line, and written."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.rollout.trajectory_json import from_json, to_json
from rllib_ragen.types import Trajectory

_ENDING = ".jsonl"


def trajectory_files(given: str) -> list[Path]:
    """Returns the files that `offline.input` names, sorted: one, those of a folder, or those of a pattern.

    Raises:
        ConfigError: there is none.
    """
    path = Path(given)
    if path.is_dir():
        found = sorted(one for one in path.iterdir() if one.suffix == _ENDING and one.is_file())
    else:
        found = [path] if path.is_file() else sorted(Path(one) for one in glob.glob(given) if os.path.isfile(one))
    if not found:
        raise ConfigError(
            f"offline.input={given}: there is no such file; allowed: sampler, a JSONL file of trajectories (a run's"
            f" trajectories.jsonl, or what offline.output wrote), a folder with files *{_ENDING}, or a pattern"
        )
    return found


def read_trajectories(path: Path) -> Iterator[tuple[int, Trajectory]]:
    """Yields (iteration that the record names, 0 without; trajectory) of every line.

    Raises:
        ConfigError: a line is no trajectory with token ids and log-probs; one sentence with file and line.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _read(line, f"offline.input: line {number} of {path}")


def _read(line: str, where: str) -> tuple[int, Trajectory]:
    try:
        record: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where} is cut off, or no JSON: {error}") from None
    try:
        iteration, trajectory = int(record.get("iteration", 0)), from_json(record)
    except KeyError as error:
        raise ConfigError(
            f"{where} has no {error}: training is token-exact, and needs all that a run writes of a trajectory, the"
            " sampled token ids and their log-probs among it"
        ) from None
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ConfigError(f"{where} is no trajectory: {error}") from None
    for turn in trajectory.turns:
        ids = np.concatenate([turn.prompt_ids, turn.reply_ids])
        if turn.logprobs.shape != turn.reply_ids.shape:
            raise ConfigError(
                f"{where} has {turn.logprobs.size} log-probs for {turn.reply_ids.size} sampled tokens; allowed: one for"
                " each"
            )
        if ids.ndim != 1 or (len(ids) and ids.min() < 0):
            raise ConfigError(f"{where} has token ids that are none; allowed: a list of integers ≥ 0")
        if not (np.isfinite(turn.logprobs).all() and np.isfinite(turn.reward)):
            raise ConfigError(f"{where} has a log-prob or a reward that is not finite; allowed: numbers")
    return iteration, trajectory


def write_trajectories(folder: Path, iteration: int, trajectories: Sequence[Trajectory]) -> Path:
    """Writes an iteration's trajectories as a file of their own, whole or not at all. Returns it.

    An iteration that is done again, because a run went on from an earlier checkpoint, replaces its file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"iteration_{iteration:06}{_ENDING}"
    partial = path.with_suffix(".part")
    # What UTF-8 cannot hold, a lone surrogate, is written as the escape that JSON has for it.
    with partial.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for one in trajectories:
            file.write(json.dumps({"iteration": iteration, **to_json(one)}, ensure_ascii=False) + "\n")
    os.replace(partial, path)
    return path
