"""The results of a run as Python objects, read from its folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.folder import RunFolder

Row = Tree


@dataclass(frozen=True)
class RunResult:
    """The results of a run and their places."""

    folder: Path
    """The run's folder."""
    config: RunConfig
    """The run's settings."""
    metrics: list[Row]
    """One row per iteration: `iteration`, `time_s`, and a number (or None) per metric (docs/diagnostics.md)."""
    evaluations: list[Row]
    """One row per evaluation: `iteration`, `split`, `greedy`, `success` and more."""
    model: Path | None
    """The trained policy as a transformers folder; None: the run is not finished."""
    stop_reason: str | None
    """Reason to stop, in words; None: it has not stopped, or was killed."""


def load_run(folder: str | Path) -> RunResult:
    """Reads the results in a run's folder; nothing that the config names is imported.

    Raises:
        ConfigError: not a run folder.
    """
    run = RunFolder.open(Path(folder))
    progress = run.path / "progress.jsonl"
    lines = progress.read_text(encoding="utf-8").split("\n") if progress.is_file() else []
    rows: list[Row] = [json.loads(line) for line in lines if line]
    return RunResult(
        folder=run.path,
        config=run.config_as_read(),
        metrics=[row for row in rows if "split" not in row],
        evaluations=[row for row in rows if "split" in row],
        model=run.export if run.export.is_dir() else None,
        stop_reason=run.stop_reason(),
    )
