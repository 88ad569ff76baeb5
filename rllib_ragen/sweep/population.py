"""Population-based training: the worst runs continue from the best ones' checkpoints, with values near theirs.

Tune's schedulers: `pbt` (Jaderberg et al. 2017, 1711.09846) resamples values or moves them by a fifth, `pb2`
(Parker-Holder et al. 2020, 2002.02518) fits a Gaussian process to what values have brought so far. Members are the
study's configurations; a member's folder is an ordinary run folder that says in exchanges.jsonl whose weights it took.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from ray import tune
from ray.tune import Callback
from ray.tune.schedulers import PopulationBasedTraining
from ray.tune.schedulers.pb2 import PB2

from ragen_envs.tree import Tree
from rllib_ragen.sweep.place import driven
from rllib_ragen.sweep.population_member import member_name, member_number
from rllib_ragen.sweep.spec import SweepSpec
from rllib_ragen.sweep.study import SweepStudy, result_of

_KEPT = 20
"""Checkpoints of a member that Tune keeps: chosen freely; with 4, a fast donor deleted them before a slow member had
read them.
"""


def population_space(spec: SweepSpec, study: SweepStudy) -> Tree:
    """Returns Tune's parameter space: the members, each with its first configuration."""
    while study.num_asked < spec.num_trials:
        number = study.ask().number
        study.assign(number, spec.seeds[0], member_name(number))
    starts = [study.trial(number).params for number in range(spec.num_trials)]
    # Two keys that belong together: grid_search would combine them, so one of them looks the other up.
    return {
        "number": tune.grid_search(list(range(spec.num_trials))),
        "values": tune.sample_from(lambda config: dict(starts[config["number"]])),
    }


def population_options(spec: SweepSpec) -> Tree:
    """Returns further arguments of `tune.RunConfig` for a population."""
    return {
        "stop": {"finished": 1},
        "checkpoint_config": tune.CheckpointConfig(num_to_keep=_KEPT),
        "callbacks": [MemberNotes(spec)],
    }


def population_scheduler(spec: SweepSpec, mode: str) -> PopulationBasedTraining:
    """Makes the scheduler, which exchanges weights every `exchange_iterations`, starting at `grace_iterations`."""
    common = {
        "time_attr": "iteration",
        "metric": spec.objectives[0],
        "mode": mode,
        "perturbation_interval": spec.exchange_iterations,
        "custom_explore_fn": _Inside(spec),
    }
    distributions = {name: dimension.distribution for name, dimension in spec.dimensions().items()}
    if spec.scheduler == "pb2":
        bounds = {name: [found.low, found.high] for name, found in distributions.items()}  # type: ignore[attr-defined]
        return PB2(**common, hyperparam_bounds={"values": bounds})
    mutations = {name: _domain(distribution) for name, distribution in distributions.items()}
    return PopulationBasedTraining(
        **common, burn_in_period=spec.grace_iterations, hyperparam_mutations={"values": mutations}
    )


class MemberNotes(Callback):
    """A callback that reports members' ends to the study, because Tune allows no searcher with these schedulers."""

    def __init__(self, spec: SweepSpec) -> None:
        self._spec = spec

    def on_trial_complete(self, iteration: int, trials: object, trial: Any, **info: object) -> None:
        """Records that a member is done."""
        self._tell(trial, str(trial.last_result.get("stopped", "")), "")

    def on_trial_error(self, iteration: int, trials: object, trial: Any, **info: object) -> None:
        """Records that a member has failed for good."""
        self._tell(trial, "", f"crashed; see tune/{Path(trial.local_path).name}/error.txt")

    def _tell(self, trial: Any, stopped: str, error: str) -> None:
        number = member_number(trial.local_path)
        # Opened here: Tune pickles this object.
        study = SweepStudy(self._spec, driven())
        result = result_of(trial.last_result, self._spec, stopped, error)
        study.tell(number, self._spec.seeds[0], result, ended_with=trial.config["values"])


class _Inside:
    """A function that clips values to their range after an exploration step."""

    def __init__(self, spec: SweepSpec) -> None:
        self._spec = spec

    def __call__(self, config: Tree) -> Tree:
        values = dict(config["values"])
        for name, dimension in self._spec.dimensions().items():
            found = dimension.distribution
            if isinstance(found, (FloatDistribution, IntDistribution)):
                values[name] = min(max(values[name], found.low), found.high)
            if isinstance(found, IntDistribution):
                values[name] = round(values[name])
        return {**config, "values": values}


def _domain(found: Any) -> Any:
    if isinstance(found, CategoricalDistribution):
        return list(found.choices)
    if isinstance(found, IntDistribution):
        draw = tune.lograndint if found.log else tune.randint
        return draw(found.low, found.high + 1)
    return (tune.loguniform if found.log else tune.uniform)(found.low, found.high)
