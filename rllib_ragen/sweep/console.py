"""The display of a sweep: one line per event."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ray.tune import Callback
from ray.tune.experiment import Trial

from ragen_envs.tree import Tree
from rllib_ragen.sweep.population_member import member_number


class SweepLines(Callback):
    """A callback that prints lines to stdout."""

    def __init__(self, objectives: Sequence[str]) -> None:
        self._objectives = objectives

    def on_trial_start(self, iteration: int, trials: object, trial: Trial, **info: object) -> None:
        """Prints that a run begins, or is resumed."""
        values = trial.config["values"].items()
        told = ", ".join(
            f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}" for name, value in values
        )
        print(f"{_who(trial)}  begins  {told}", flush=True)

    def on_trial_result(self, iteration: int, trials: object, trial: Trial, result: Tree, **info: object) -> None:
        """Prints a validation, or the end."""
        told = "  ".join(f"{name} {result.get(name, math.nan):.3g}" for name in self._objectives)
        end = f"  stopped: {result['stopped']}" if result.get("stopped") else "  done" if result.get("finished") else ""
        print(f"{_who(trial)}  iteration {result.get('iteration', 0):.0f}  {told}{end}", flush=True)

    def on_trial_error(self, iteration: int, trials: object, trial: Trial, **info: object) -> None:
        """Prints that a run has failed for good."""
        print(f"{_who(trial)}  FAILED, see {trial.error_file}", flush=True)


def _who(trial: Trial) -> str:
    if "seed" in trial.config:
        return f"trial {trial.config['number']} seed {trial.config['seed']}"
    return f"trial {member_number(trial.local_path)}"
