"""The Optuna study of a sweep, in a SQLite file: what was asked, what came of it, and nothing kept elsewhere.

One trial of the study is one configuration; its runs, one per seed, are in the trial's user attributes:

    run:<seed>       Tune's id of the run
    result:<seed>    its objectives and why it stopped, when it is over
    ended_with       values at its end, of a population's member
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import BaseSampler, CmaEsSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.faults.private_names.of_optuna import note
from rllib_ragen.sweep.place import study_url
from rllib_ragen.sweep.spec import MINIMISED, SweepSpec

Result = Tree
"""Result of a run: objectives by name, `iteration`, `stopped` (reason to stop early, or ""), `error` (or "")."""
_SPACE = "space"
_ENDED_WITH = "ended_with"
_SEED = 0
"""Seed of Optuna's samplers, an arbitrary number: the same sweep asks for the same configurations."""


class SweepStudy:
    """The study: new configurations, and the results of their runs."""

    def __init__(self, spec: SweepSpec, folder: Path) -> None:
        """Opens or makes the study in the sweep's `folder`.

        Raises:
            ConfigError: it was made for another space.
        """
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._spec = spec
        self._distributions = {name: dimension.distribution for name, dimension in spec.dimensions().items()}
        self.study = optuna.create_study(
            study_name=spec.name,
            storage=study_url(folder),
            sampler=_sampler(spec),
            directions=["minimize" if name in MINIMISED else "maximize" for name in spec.objectives],
            load_if_exists=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            self.study.set_metric_names(list(spec.objectives))
        space = {name: repr(distribution) for name, distribution in sorted(self._distributions.items())}
        if self.study.user_attrs.get(_SPACE, space) != space:
            raise ConfigError(f"name: the study {spec.name!r} in {folder} has another space; give another name")
        self.study.set_user_attr(_SPACE, space)
        if spec.sampler == "grid" and not self.study.trials:
            for values in spec.combinations():
                self.study.enqueue_trial(values)

    @property
    def num_asked(self) -> int:
        """Number of configurations that have been handed out."""
        return sum(trial.state != TrialState.WAITING for trial in self.study.trials)

    def ask(self) -> FrozenTrial:
        """Asks Optuna for a new configuration."""
        number = self.study.ask(self._distributions).number
        return self.trial(number)

    def trial(self, number: int) -> FrozenTrial:
        """Returns a configuration with its results."""
        found: FrozenTrial = self.study.trials[number]
        return found

    def assign(self, number: int, seed: int, run_id: str) -> None:
        """Records that run `run_id` has configuration `number` with `seed`."""
        self._note(number, f"run:{seed}", run_id)

    def assigned(self) -> dict[str, tuple[int, int]]:
        """Returns (configuration, seed) by run id, for all runs ever assigned."""
        return {
            run_id: (trial.number, int(name.removeprefix("run:")))
            for trial in self.study.trials
            for name, run_id in trial.user_attrs.items()
            if name.startswith("run:")
        }

    def to_play(self) -> list[tuple[int, int]]:
        """Returns (configuration, seed) of all runs without a result."""
        running = self.study.get_trials(states=(TrialState.RUNNING,))
        pairs = [(trial, seed) for trial in running for seed in self._spec.seeds]
        return [(trial.number, seed) for trial, seed in pairs if f"result:{seed}" not in trial.user_attrs]

    def tell(self, number: int, seed: int, result: Result, ended_with: Mapping[str, object] | None = None) -> None:
        """Records the result of a run; a configuration ends with the last of its runs. A second call has no effect.

        ended_with: the run's values at its end, if they differ from those asked for.
        """
        if self.trial(number).state.is_finished():
            return
        if ended_with is not None:
            self._note(number, _ENDED_WITH, dict(ended_with))
        self._note(number, f"result:{seed}", result)
        attrs = self.trial(number).user_attrs
        results = [attrs.get(f"result:{seed}") for seed in self._spec.seeds]
        over = [result for result in results if result is not None]
        if len(over) == len(results):
            self._finish(number, over)

    def _finish(self, number: int, results: list[Result]) -> None:
        for result in results:
            if result["error"]:
                self._note(number, "failed", result["error"])
                self.study.tell(number, state=TrialState.FAIL)
                return
        values = []
        for name in self._spec.objectives:
            found = [result[name] for result in results]
            values.append(statistics.fmean(found))
            if len(found) > 1:
                self._note(number, f"spread:{name}", statistics.stdev(found))
        self._note(number, "stopped", next((result["stopped"] for result in results if result["stopped"]), ""))
        if any(map(math.isnan, values)):
            self._note(number, "failed", "an objective was not measured")
            self.study.tell(number, state=TrialState.FAIL)
        else:
            self.study.tell(number, values)

    def _note(self, number: int, name: str, value: object) -> None:
        note(self.study, number, name, value)

    def finished(self) -> list[FrozenTrial]:
        """Returns the configurations with objectives, in the order in which they were asked for."""
        return self.study.get_trials(states=(TrialState.COMPLETE,))

    def best(self) -> list[FrozenTrial]:
        """Returns the best configuration, or with several objectives the Pareto front."""
        return list(self.study.best_trials) if self.finished() else []


def values_of(trial: FrozenTrial) -> Tree:
    """Returns the values of a configuration: those asked for, or for a population's member those at its end."""
    return {**trial.params, **trial.user_attrs.get(_ENDED_WITH, {})}


def result_of(row: Mapping[str, Any], spec: SweepSpec, stopped: str = "", error: str = "") -> Result:
    """Makes a run's result from its last report."""
    objectives: Tree = {name: float(row.get(name, math.nan)) for name in spec.objectives}
    return {**objectives, "iteration": int(row.get("iteration", 0)), "stopped": stopped, "error": error}


def _sampler(spec: SweepSpec) -> BaseSampler:
    if spec.sampler in ("random", "grid"):
        # A grid is queued when the study is made.
        return RandomSampler(seed=_SEED)
    if spec.sampler == "cmaes":
        return CmaEsSampler(seed=_SEED)
    # Runs at the same time must not all try the same spot.
    return TPESampler(seed=_SEED, constant_liar=True, n_startup_trials=min(10, max(4, spec.trials // 3)))
