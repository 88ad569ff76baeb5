"""Advantages per turn: the episode compared with its group, and the turn with the group's comparable turns."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from rllib_ragen.credit.estimator import Credit, Estimator
from rllib_ragen.credit.groups import Returns, centred, compared_groups, reward_std
from rllib_ragen.credit.grpo import GRPO
from rllib_ragen.credit.token_axis import discounted
from rllib_ragen.types import FloatArray, Trajectory


class TurnEstimator(Estimator):
    """A_k = A_episode + ω (G_k − mean_c)/(std_c + 1e-6),  G_k = Σ_{l ≥ k} γ^{l−k} r_l, on the tokens of turn k.

    A_episode is GRPO's; c are the turns of the trajectory's group with the same `key`, std with ddof = 1. A turn that
    is alone in its c, or in a c of equal G, has only A_episode. A group of one: A = 0 on all turns, even if they could
    be compared among themselves. A subclass defines which turns are comparable.
    """

    needs_group: ClassVar[bool] = True

    def __init__(self, turn_gamma: float, turn_weight: float) -> None:
        """turn_gamma: γ, the discount per turn; turn_weight: ω."""
        self.turn_gamma = turn_gamma
        self.turn_weight = turn_weight

    @abstractmethod
    def key(self, trajectory: Trajectory, turn: int) -> Hashable:
        """Returns the key of a turn: turns of a group with equal keys are compared."""

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Returns one advantage per turn, on its trained tokens."""
        rewards = [np.array([turn.reward for turn in trajectory.turns], np.float64) for trajectory in trajectories]
        to_go = [discounted(own, self.turn_gamma) for own in rewards]
        advantages = [np.zeros_like(own) for own in rewards]
        for members in compared_groups(trajectories):
            cells: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
            for i in members:
                for k in range(len(rewards[i])):
                    cells[self.key(trajectories[i], k)].append((i, k))
            for cell in cells.values():
                compared = _standardised(np.array([to_go[i][k] for i, k in cell], np.float64))
                for (i, k), advantage in zip(cell, compared, strict=True):
                    advantages[i][k] = self.turn_weight * advantage
        episodes = GRPO().assign(trajectories, values)
        return [_add(*both) for both in zip(trajectories, episodes, advantages, strict=True)]


def _standardised(returns: Returns) -> Returns:
    return centred(returns) / (reward_std(returns) + 1e-6)


def _add(trajectory: Trajectory, episode: Credit, of_turns: Returns) -> Credit:
    turn_index = trajectory.turn_index()
    trained = turn_index >= 0
    episode.advantages[trained] += of_turns[turn_index[trained]].astype(np.float32)
    return episode
