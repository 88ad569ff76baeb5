"""RLlib's: hooks of its algorithm and config, and parts of a learner group."""

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
    """An algorithm that never gets a second group of env runners: it would be a second set of engines."""

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
        """Says how many iterations are over, as after that many calls of `train()`."""
        need(self, "_iteration", "ray")
        self._iteration = iteration


def keep_runner_states(config: AlgorithmConfig) -> None:
    """Stops RLlib from merging the runners' states after each iteration and sending them round."""
    need(config, "_dont_auto_sync_env_runner_states", "ray")
    config._dont_auto_sync_env_runner_states = True


def attribute_of_key(config: AlgorithmConfig, key: str) -> str:
    """Says which attribute of a config a key of `update_from_dict` means."""
    name: str = need(config, "_translate_special_keys", "ray")(key, warn_deprecated=False)
    return name


def local_learner(learners: LearnerGroup) -> Any:
    """Gets the learner that runs in this process; None if they are actors."""
    return need(learners, "_learner", "ray")


def seed_of_runner(runner: EnvRunner) -> int:
    """Gets the seed that RLlib gives an env runner, of its own for each; 0 without one."""
    return int(need(runner, "_seed", "ray") or 0)


def chosen_parts(
    group: LearnerGroup, name: str, components: Components, but: Components
) -> tuple[bool, list[str] | None, list[str] | None]:
    """Says what of a component `get_state(components, not_components=but)` asks for.

    Returns:
        (whether any of it, its parts that are asked for, its parts that are left out), None: all, none.
    """
    parts_of = need(group, "_get_subcomponents", "ray")
    is_asked: bool = need(group, "_check_component", "ray")(name, components, but)
    return is_asked, parts_of(name, components), parts_of(name, but)
