"""Groups of trajectories of one task instance, and the statistics of their raw returns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rllib_ragen.credit.estimator import Credit, Estimator
from rllib_ragen.types import FloatArray, Trajectory

Returns = npt.NDArray[np.float64]

ROUNDING = 1e-9
"""Largest difference of equal returns: −0.1 three times and −0.3 are the same return, but not the same float. Chosen
freely, far above rounding and far below any reward.
"""


def group_members(trajectories: Sequence[Trajectory]) -> dict[str, list[int]]:
    """Returns the positions of each group's trajectories by `group_id`, groups in order of first appearance."""
    members: dict[str, list[int]] = {}
    for index, trajectory in enumerate(trajectories):
        members.setdefault(trajectory.group_id, []).append(index)
    return members


def env_labels(trajectories: Sequence[Trajectory]) -> list[str]:
    """Returns the labels of the environments that the trajectories are of, in order of first appearance."""
    return list(dict.fromkeys(trajectory.env for trajectory in trajectories))


def compared_groups(trajectories: Sequence[Trajectory]) -> list[list[int]]:
    """Returns the positions of the members of each group with at least two."""
    return [members for members in group_members(trajectories).values() if len(members) > 1]


def centred(returns: Returns) -> Returns:
    """Returns [n] R − mean: exactly 0 if all returns are equal, so that such a group has no gradient at all."""
    if np.ptp(returns) < ROUNDING:
        return np.zeros_like(returns)
    mean: np.float64 = np.sort(returns).mean()
    return returns - mean


def reward_std(returns: Returns) -> float:
    """Returns the std (ddof = 1) of a group's returns; exactly 0 for equal returns and for a group of one."""
    if np.ptp(returns) < ROUNDING:
        return 0.0
    # Sorted first: floating-point sums, and with them ties between groups, must not depend on who finished first.
    return float(np.std(np.sort(returns), ddof=1))


class GroupEstimator(Estimator):
    """One advantage per trajectory, from the returns of its group, on every trained token.

    Every trajectory counts once in its group's statistics, whatever its length. A group of one, which failures may
    leave, has no comparison: A = 0, because its raw return would outweigh all others. There is no critic: returns are
        0.
    """

    needs_group: ClassVar[bool] = True

    @abstractmethod
    def advantages(self, returns: Returns) -> Returns:
        """Returns [n] advantages of one group's n ≥ 2 members from their [n] raw returns."""

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Returns one advantage per trajectory, spread over its trained tokens."""
        episode_returns = np.array([trajectory.episode_return for trajectory in trajectories], np.float64)
        advantages = np.zeros_like(episode_returns)
        for members in compared_groups(trajectories):
            advantages[members] = self.advantages(episode_returns[members])
        return [_broadcast(trajectory, a) for trajectory, a in zip(trajectories, advantages, strict=True)]


def _broadcast(trajectory: Trajectory, advantage: float) -> Credit:
    trained = trajectory.turn_index() >= 0
    return Credit(np.where(trained, np.float32(advantage), np.float32(0)), np.zeros(len(trained), np.float32))
