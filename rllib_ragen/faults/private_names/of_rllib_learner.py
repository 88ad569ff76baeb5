"""RLlib's private names of the learner, behind public ones."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from ray.rllib.core.learner.torch.torch_learner import TorchLearner

from ragen_envs.tree import Tree


class NamedOptimizer(NamedTuple):
    """A registered optimiser."""

    name: str
    module_id: str
    optimizer: torch.optim.Optimizer


class LearnerHooks(TorchLearner):
    """A TorchLearner whose subclass places the modules and saves the optimisers.

    It never wraps modules in DistributedDataParallel: the subclass sums gradients itself.
    """

    @property
    def index(self) -> int:
        """Index of this learner in its group, 0 if it is alone."""
        return int(self._learner_index or 0)

    @property
    def num_updates(self) -> int:
        """Number of updates of the weights."""
        return int(self._weights_seq_no)

    @num_updates.setter
    def num_updates(self, number: int) -> None:
        self._weights_seq_no = number

    @property
    def named_optimizers(self) -> list[NamedOptimizer]:
        """All optimisers, in order of registration."""
        module_of = self._optimizer_name_to_module
        return [NamedOptimizer(name, module_of[name], one) for name, one in self._named_optimizers.items()]

    @abstractmethod
    def place_modules(self, modules: Any) -> None:
        """Moves modules to the learner's device, or shards them, before optimisers are made."""

    @abstractmethod
    def optimizer_states(self) -> Tree:
        """Returns the optimisers' states by name, for `set_optimizer_states`."""

    @abstractmethod
    def set_optimizer_states(self, states: Tree) -> None:
        """Replaces the optimisers' states."""

    def _map_module_to_device(self, module: Any) -> None:
        self.place_modules(module)

    def _make_modules_ddp_if_necessary(self) -> None:
        pass

    def _get_optimizer_state(self) -> Tree:
        return self.optimizer_states()

    def _set_optimizer_state(self, state: Tree) -> None:
        self.set_optimizer_states(state)
