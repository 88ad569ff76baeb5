"""state.json of a checkpoint: read and compared without torch, so that errors are reported at once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from ragen_envs.registry import env_names, gym_id
from ragen_envs.tree import Tree
from rllib_ragen.config.load import flat_config, merge
from rllib_ragen.config.reward_section import comparable
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.starpo.checkpoint.files import check_files
from rllib_ragen.starpo.checkpoint.layout import STATE_FILE

_FORMAT = 2
"""Number of the layout; raise it when older versions would misread a new one."""
_SEAL = "sha256"
_SECTIONS = (
    *("env", "envs", "multi_agent", "model", "rollout", "vllm", "credit", "learner", "offline", "diagnostics"),
    "rewards",
)
"""Sections of the config that a checkpoint holds; the others are about a run's length and its watching."""
_DECAY = "learner.decay_iterations"


def write_manifest(folder: Path, manifest: Mapping[str, object]) -> None:
    """Writes `manifest`, and its checksum."""
    stated = {"format": _FORMAT, **manifest}
    text = json.dumps({**stated, _SEAL: _seal(stated)}, indent=2)
    (folder / STATE_FILE).write_text(f"{text}\n", encoding="utf-8")


def read_manifest(folder: Path) -> Tree:
    """Reads state.json of a checkpoint.

    Raises:
        ValueError: no (complete) checkpoint, one of another format, or a file that is missing or cut off.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        raise ValueError(f"{str(folder)!r} holds no complete checkpoint (no {STATE_FILE})")
    try:
        manifest: Tree = json.loads(path.read_text(encoding="utf-8"))
        found = manifest.get("format")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{str(path)!r} is torn: {error}") from None
    if found != _FORMAT:
        raise ValueError(f"{str(path)!r} has format {found!r}, this version reads {_FORMAT}")
    if manifest.pop(_SEAL, None) != _seal(manifest):
        raise ValueError(f"{str(path)!r} is not what was written: its checksum is another")
    check_files(folder, manifest["files"], contents=False)
    return manifest


def config_differences(saved: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Returns the keys of a checkpoint's sections that differ between two configs (as JSON), with both values.

    `learner.decay_iterations` is compared only if both set it: else it is the run's length.
    """
    before, after = _comparable(saved), _comparable(now)
    keys = [key for key in {**before, **after} if key == "seed" or re.split(r"[.\[]", key)[0] in _SECTIONS]
    if None in (before.get(_DECAY), after.get(_DECAY)):
        keys = [key for key in keys if key != _DECAY]
    return [
        f"{key} ({before.get(key)!r} in the checkpoint, {after.get(key)!r} here)"
        for key in keys
        if before.get(key) != after.get(key)
    ]


def _comparable(config: Mapping[str, object]) -> Tree:
    # Keys that are younger than the checkpoint had their defaults.
    flat = flat_config(merge(RunConfig().model_dump(mode="json"), config))
    short = {gym_id(name): name for name in env_names()}
    # Of a folder only the name counts: it may have been moved, and its weights are not what a checkpoint goes on from.
    model = Path(str(flat.get("model.path"))).name
    flat["rewards"] = comparable(flat.get("rewards") or [])
    return {**flat, "env.name": short.get(flat.get("env.name", ""), flat.get("env.name")), "model.path": model}


def _seal(manifest: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
