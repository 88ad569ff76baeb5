"""The trackers by name, whether they can be had, and opening them. Imports none of their packages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.schema import RunConfig, TrackerName
from rllib_ragen.faults.exit_codes import ExitCode, sentence_of
from rllib_ragen.run.trackers import mlflow, tensorboard, trackio, wandb
from rllib_ragen.run.trackers.tracker import TrackedRun, Tracker

_TRACKERS: dict[TrackerName, tuple[ModuleType, str]] = {
    "tensorboard": (tensorboard, "TensorBoardTracker"),
    "wandb": (wandb, "WandbTracker"),
    "mlflow": (mlflow, "MlflowTracker"),
    "trackio": (trackio, "TrackioTracker"),
}
"""Tracker → (its module, its class there); the package that it needs and our extra have the tracker's name."""
RECORDS_FILE = "trackers.json"
"""Names of a run's records in their services, in the run's folder: a run that goes on adds to the same ones."""


def check_trackers(names: Sequence[TrackerName]) -> None:
    """Checks that every tracker's package is installed and its environment makes sense.

    Raises:
        ConfigError: one sentence.
    """
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"trackers: {list(names)} names {name} twice")
        package = find_spec(name)
        # A folder ./wandb or ./mlflow, which these leave behind, would be a namespace package: without a file.
        if package is None or package.origin is None:
            raise ConfigError(f"trackers: {name} needs a package (pip install 'rllib_ragen[{name}]')")
        _TRACKERS[name][0].check()


def ways_to_see(config: RunConfig, folder: Path) -> list[str]:
    """Says of each tracker how one looks at what it has of the run in `folder`: a command, mostly."""
    return [str(_TRACKERS[name][0].how_to_see(folder)) for name in config.trackers]


def open_trackers(
    config: RunConfig,
    folder: Path,
    *,
    start: int,
    group: str | None,
    history: Callable[[], Sequence[Mapping[str, Any]]],
    say: Callable[[str], object],
) -> list[Tracker]:
    """Opens the record of the run in `folder` with every tracker of `config`: the one that is there, if the run goes
    on.

    Args:
        config: the run's.
        folder: the run's.
        start: iteration that it goes on after.
        group: name of the sweep that it belongs to.
        history: see `TrackedRun`.
        say: is told of a tracker that fails later, which ends that tracker and not the run.

    Raises:
        ConfigError: a tracker does not open its record.
    """
    records = folder / RECORDS_FILE
    keys: dict[str, str] = json.loads(records.read_text(encoding="utf-8")) if records.is_file() else {}
    opened: list[Tracker] = []
    settings = config.model_dump(mode="json")
    for name in config.trackers:
        run = TrackedRun(folder, settings, start, group, history, keys.get(name))
        try:
            module, cls = _TRACKERS[name]
            tracker = getattr(module, cls)(run)
        except Exception as error:
            for other in opened:
                other.close()
            raise ConfigError(
                f"trackers: {name} does not open its record: {sentence_of(error, ExitCode.ERROR)}"
            ) from error
        opened.append(tracker if name == "tensorboard" else _Forgiven(name, tracker, say))
        if tracker.key is not None and tracker.key != keys.get(name):
            keys[name] = tracker.key
            records.write_text(json.dumps(keys, indent=2) + "\n", encoding="utf-8")
    return opened


class _Forgiven:
    """A tracker whose failure is told once, and the run goes on without it: the run's own folder has everything."""

    def __init__(self, name: str, tracker: Tracker, say: Callable[[str], object]) -> None:
        self._name, self._say = name, say
        self._tracker: Tracker | None = tracker

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        self._try(iteration, lambda tracker: tracker.log(iteration, values))

    def log_trajectories(self, iteration: int, records: Sequence[Tree]) -> None:
        self._try(iteration, lambda tracker: tracker.log_trajectories(iteration, records))

    def close(self) -> None:
        self._try(None, lambda tracker: tracker.close())

    def _try(self, iteration: int | None, act: Callable[[Tracker], object]) -> None:
        if self._tracker is None:
            return
        try:
            act(self._tracker)
        except Exception as error:
            self._tracker = None
            where = "at its end" if iteration is None else f"at iteration {iteration}"
            self._say(
                f"warning  tracker {self._name} failed {where} and is left out: {sentence_of(error, ExitCode.ERROR)}"
            )
