"""RLlib's private names: hooks of its algorithm and config, and parts of a learner group."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.env.env_runner import EnvRunner

from rllib_ragen.faults.private_names.need import need

Components = str | Collection[str] | None


class AlgorithmWithoutEvaluators(Algorithm):
    """An algorithm without evaluation env runners, which would be a second set of engines."""

    @classmethod
    def _should_create_evaluation_env_runners(cls, eval_config: Any) -> bool:
        return False

    def connect(self) -> None:
        """Takes note that runners and learners are there, before `on_algorithm_init` is told of the algorithm."""

    def _set_up_metrics(self) -> None:
        # RLlib's last step before that callback, which may already evaluate.
        super()._set_up_metrics()
        self.connect()

    def set_iteration(self, iteration: int) -> None:
        """Sets the number of finished iterations, as after that many calls of `train()`."""
        need(self, "_iteration", "ray")
        self._iteration = iteration


def keep_runner_states(config: AlgorithmConfig) -> None:
    """Stops RLlib from merging and broadcasting the runners' states after each iteration."""
    need(config, "_dont_auto_sync_env_runner_states", "ray")
    config._dont_auto_sync_env_runner_states = True


def attribute_of_key(config: AlgorithmConfig, key: str) -> str:
    """Returns the attribute of a config that a key of `update_from_dict` means."""
    name: str = need(config, "_translate_special_keys", "ray")(key, warn_deprecated=False)
    return name


def local_learner(learners: LearnerGroup) -> Any:
    """Returns the learner of this process; None if learners are actors."""
    return need(learners, "_learner", "ray")


def seed_of_runner(runner: EnvRunner) -> int:
    """Returns the seed that RLlib gives this env runner, different for each; 0 if there is none."""
    return int(need(runner, "_seed", "ray") or 0)


def chosen_parts(
    group: LearnerGroup, name: str, components: Components, but: Components
) -> tuple[bool, list[str] | None, list[str] | None]:
    """Returns the parts of a component that `get_state(components, not_components=but)` asks for.

    Returns:
        (whether it is asked for at all, the parts asked for (None: all), the parts left out (None: none)).
    """
    parts_of = need(group, "_get_subcomponents", "ray")
    is_asked: bool = need(group, "_check_component", "ray")(name, components, but)
    return is_asked, parts_of(name, components), parts_of(name, but)
