"""RLlib's config: what it keeps of its setters under private names, and the model config that all modules get."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from ragen_envs.tree import Tree
from rllib_ragen.faults.private_names.need import need

LEARNER_CLASS = "_learner_class"
MODEL_CONFIG = "_model_config"
RL_MODULE_SPEC = "_rl_module_spec"
IS_ATARI = "_is_atari"
BATCH_PER_LEARNER = "_train_batch_size_per_learner"
ENV_TO_MODULE = "_env_to_module_connector"
MODULE_TO_ENV = "_module_to_env_connector"
LEARNER_CONNECTOR = "_learner_connector"


def setting(config: AlgorithmConfig, attribute: str) -> Any:
    """Gets what a setter has left, under its private name."""
    return need(config, attribute, "ray")


class ConfigHooks(AlgorithmConfig):
    """An AlgorithmConfig whose modules have a model config by default, into which a user's is merged."""

    @abstractmethod
    def default_model_config(self) -> Tree:
        """Returns the `model_config` of every RLModule, but for what the user says."""

    @property
    def _model_config_auto_includes(self) -> Tree:
        return self.default_model_config()
