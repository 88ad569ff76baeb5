"""The training data of an update: whole trajectories, assigned to optimiser steps before the learners get them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from ray.rllib.core.learner.training_data import TrainingData

from ragen_envs.tree import Tree
from rllib_ragen.types import TokenRow


@dataclass(frozen=True)
class Totals:
    """Counts of one module's part of a minibatch over all learners, the denominators of the loss."""

    tokens: int
    """Number of trained tokens."""
    rows: int
    """Number of trajectories with at least one trained token."""


@dataclass(frozen=True)
class OptimizerStep:
    """One minibatch, or one learner's share of it; `totals` are always those of the whole minibatch."""

    rows: list[TokenRow]
    totals: dict[str, Totals]
    """Totals by module id."""


@dataclass
class TokenTrainingData(TrainingData):
    """The optimiser steps of one update.

    `LearnerGroup.update(training_data=…)` calls `validate`, `shard` and `solve_refs`. RLlib's own sharding splits
    episodes to balance timesteps, and counts steps per learner, so that learners may disagree on their number; here
    trajectories stay whole, every learner gets a share of every step, and shares are balanced by tokens.
    """

    steps: list[OptimizerStep] = field(default_factory=list)

    @classmethod
    def plan(
        cls, rows: Sequence[TokenRow], *, num_minibatches: int, num_epochs: int, rng: np.random.Generator
    ) -> TokenTrainingData:
        """Plans the optimiser steps: each epoch visits every row once, in `num_minibatches` steps of nearly equal size.

        The plan does not depend on the number of learners.
        """
        by_module: dict[str, list[TokenRow]] = defaultdict(list)
        for index, row in enumerate(rows):
            by_module[row.module_id].append(replace(row, index=index))
        steps = []
        for _ in range(num_epochs):
            parts = {
                module_id: np.array_split(rng.permutation(len(by_module[module_id])), num_minibatches)
                for module_id in sorted(by_module)
            }
            for k in range(num_minibatches):
                chosen = [by_module[m][i] for m, split in parts.items() for i in sorted(split[k].tolist())]
                if chosen:
                    steps.append(OptimizerStep(chosen, _totals(chosen)))
        return cls(steps=steps)

    def validate(self) -> None:
        """Raises ValueError if there are no rows."""
        if not any(total.tokens for step in self.steps for total in step.totals.values()):
            raise ValueError("an update needs at least one trained token")

    def shard(self, num_shards: int, *args: object, **kwargs: object) -> list[tuple[TokenTrainingData, Tree]]:
        """Returns one share per learner, each with no further arguments for its `update`."""
        shares: list[list[OptimizerStep]] = [[] for _ in range(num_shards)]
        for step in self.steps:
            for share, rows in zip(shares, balance(step.rows, num_shards), strict=True):
                share.append(OptimizerStep(rows, step.totals))
        return [(TokenTrainingData(steps=share), {}) for share in shares]

    def solve_refs(self) -> None:
        """Does nothing: rows are passed by value."""


def balance(rows: Sequence[TokenRow], num_shares: int) -> list[list[TokenRow]]:
    """Divides `rows` into shares of nearly equal numbers of tokens: longest first, each to the smallest share."""
    shares: list[list[TokenRow]] = [[] for _ in range(num_shares)]
    loads = [0] * num_shares
    for row in sorted(rows, key=lambda row: -row.num_tokens):
        target = loads.index(min(loads))
        shares[target].append(row)
        loads[target] += row.num_tokens
    return shares


def _totals(rows: Sequence[TokenRow]) -> dict[str, Totals]:
    modules = dict.fromkeys(row.module_id for row in rows)
    counts = {m: [row.num_trained_tokens for row in rows if row.module_id == m] for m in modules}
    return {m: Totals(sum(n), sum(count > 0 for count in n)) for m, n in counts.items()}
