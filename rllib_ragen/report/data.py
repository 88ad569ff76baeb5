"""The contents of run folders, read for a report; also of runs that are still going on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragen_envs.tree import Tree
from rllib_ragen.config.environments import environments_told, worlds
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import flatten
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.evaluation import Evaluation, Scale
from rllib_ragen.run.folder import VERSIONS_FILE, RunFolder
from rllib_ragen.run.several import Scales, find_scales

Row = Tree
Series = npt.NDArray[np.float64]
_OF_ONE_RUN = {
    *("seed", "name", "results_dir", "iterations", "time_limit_s", "token_limit"),
    *("checkpoint_interval", "keep_checkpoints", "learner.torch_threads"),
}
_WATCHING = ("eval.", "diagnostics.", "alarms.")
"""Prefixes of the keys in which runs of one group may differ, because they do not change the training."""


@dataclass(frozen=True)
class Run:
    """A run, read from its folder."""

    folder: RunFolder
    config: RunConfig
    rows: list[Row]
    """Training rows of progress.jsonl."""
    evaluations: list[Evaluation]
    alarms: list[Row]
    trajectories: list[Row]
    versions: Row
    scales: Scales
    """Floor and ceiling of everything that was evaluated."""

    @property
    def labels(self) -> list[str]:
        """Labels of the environments, if there are several."""
        return [world.label for world in worlds(self.config) if world.label]

    @property
    def baselines(self) -> Scale | None:
        """Floor and ceiling of the whole; None for a mean over environments, each of which has its own."""
        return self.scales.get("")

    def part(self, path: str) -> Run:
        """Returns what the folder holds of one of several environments (`sokoban`), or of a level (`level_1`)."""
        prefix = f"{path}/"
        rows = [
            {"iteration": row["iteration"], "time_s": row["time_s"]}
            | {name.removeprefix(prefix): value for name, value in row.items() if name.startswith(prefix)}
            for row in self.rows
        ]
        evaluations = [found.parts[path] for found in self.evaluations if path in found.parts]
        return replace(self, rows=rows, evaluations=evaluations, scales={"": self.scales[path]})

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.path.resolve().name

    def series(self, metric: str) -> tuple[Series, Series]:
        """Returns (iterations, values) of a training metric, for the iterations that measured it."""
        found = [(row["iteration"], row[metric]) for row in self.rows if row.get(metric) is not None]
        points = np.array(found, np.float64).reshape(-1, 2)
        return points[:, 0], points[:, 1]

    def success(self, split: str, greedy: bool) -> tuple[Series, Series]:
        """Returns (iterations, success in percent) of evaluations on a split."""
        found = {e.iteration: 100 * e.success for e in self.evaluations if (e.split, e.greedy) == (split, greedy)}
        points = np.array(sorted(found.items()), np.float64).reshape(-1, 2)
        return points[:, 0], points[:, 1]


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed."""

    label: str
    """Settings that distinguish it from the other groups; the run's name if there is only one group."""
    runs: list[Run]


def read_run(path: Path) -> Run:
    """Reads the run in `path`.

    Raises:
        ConfigError: not a run folder, or nothing has been logged in it yet.
    """
    folder = RunFolder.open(path)
    rows = _read_jsonl(path / "progress.jsonl")
    if not rows:
        raise ConfigError(f"{path} has no row in progress.jsonl yet: the run has to finish an iteration first")
    versions = path / VERSIONS_FILE
    config = folder.config_as_read()
    return Run(
        folder=folder,
        config=config,
        rows=[row for row in rows if "split" not in row],
        evaluations=[Evaluation.from_row(row, config.eval_temperature) for row in rows if "split" in row],
        alarms=_read_jsonl(path / "alarms.jsonl"),
        trajectories=_read_jsonl(path / "trajectories.jsonl"),
        versions=json.loads(versions.read_text(encoding="utf-8")) if versions.is_file() else {},
        scales=find_scales(config),
    )


def group_runs(runs: Sequence[Run]) -> list[Group]:
    """Groups runs whose configs differ only in the seed, in order of first appearance."""
    settings = [
        {key: value for key, value in one.items() if key not in _OF_ONE_RUN and not key.startswith(_WATCHING)}
        for one in (flatten(run.config.model_dump(mode="json")) for run in runs)
    ]
    keys = [json.dumps(setting, sort_keys=True) for setting in settings]
    differing = sorted({key for s in settings for key in s if any(other.get(key) != s[key] for other in settings)})
    groups = []
    for key in dict.fromkeys(keys):
        members = [run for run, own in zip(runs, keys, strict=True) if own == key]
        setting = settings[keys.index(key)]
        label = ", ".join(f"{name.split('.')[-1]}={setting.get(name)}" for name in differing)
        groups.append(
            Group(label or (members[0].name if len(members) == 1 else environments_told(members[0].config)), members)
        )
    return groups


def aligned(curves: Sequence[tuple[Series, Series]]) -> tuple[Series, Series, Series]:
    """Returns (x, mean, std over curves with ddof = 1) at the x that all curves have; std is 0 for a single curve."""
    common = np.array(sorted(set.intersection(*[set(x.tolist()) for x, _ in curves])))
    if not len(common):
        return common, common, common
    stacked = np.stack([y[np.searchsorted(x, common)] for x, y in curves])
    std = stacked.std(0, ddof=1) if len(curves) > 1 else np.zeros(len(common))
    return common, stacked.mean(0), std


def _read_jsonl(path: Path) -> list[Row]:
    """Reads the rows of a file, none if it does not exist, without a last line that is still being written."""
    if not path.is_file():
        return []
    rows = []
    for line in path.open(encoding="utf-8"):  # splitlines() would also split at a reply's U+2028
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows
