"""What a tracker is: a service or library that shows a run's curves and trajectories, beside the run's own folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ragen_envs.tree import Tree

PROJECT = "rllib_ragen"
"""Name under which runs are found where their service sorts them by project or experiment, if its own environment
variable names no other."""


class Tracker(Protocol):
    """One open record of one run."""

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        """Takes the numbers of one iteration, or of one evaluation after it, by `heading/name`; all are finite."""

    def log_trajectories(self, iteration: int, records: Sequence[Tree]) -> None:
        """Takes the trajectories of one iteration that are kept (`trajectory_sample.sample_records`)."""

    def close(self) -> None:
        """Writes what is left, and ends."""


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is told of the run whose record it opens."""

    folder: Path
    """The run's folder."""
    settings: Tree
    """The run's config, as JSON."""
    start: int
    """Iteration that the run goes on after; 0: from the beginning."""
    group: str | None
    """Name of the sweep that the run belongs to."""
    history: Callable[[], Sequence[Mapping[str, Any]]]
    """Training rows of the run so far (`log.RunLog`)."""
    key: str | None
    """The record's name in its service, as an earlier sitting of this run has stored it; None: there is none yet."""
