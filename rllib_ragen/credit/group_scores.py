"""Scores that filters sort groups by, from raw returns or from the sampled tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rllib_ragen.credit.groups import Returns, group_members, reward_std
from rllib_ragen.types import Trajectory

Scores = dict[str, float]


def group_reward_stds(trajectories: Sequence[Trajectory]) -> Scores:
    """Returns the in-group std of the raw returns (ddof = 1) by group_id; exactly 0 for equal returns and groups of
    one.
    """
    return _by_group(trajectories, _returns, reward_std)


def group_scores(trajectories: Sequence[Trajectory], metric: str) -> Scores:
    """Returns the metric of each group by group_id, independent of the trajectories' order.

    reward_std, reward_variance: of the raw returns, ddof = 1. reward, reward_sum: their mean, their sum.
    entropy: mean over trajectories of −mean log-prob of the sampled tokens, in nats: an estimate of the sampler's
    entropy from its own samples. entropy_variance: its variance between the trajectories, ddof = 1.
    length: mean number of sampled tokens.
    """
    numbers, statistic = _METRICS[metric]
    return _by_group(trajectories, numbers, statistic)


def _by_group(
    trajectories: Sequence[Trajectory], number: Callable[[Trajectory], float], statistic: Callable[[Returns], float]
) -> Scores:
    numbers = np.array([number(trajectory) for trajectory in trajectories], np.float64)
    # Sorted first: floating-point sums, and with them ties between groups, must not depend on who finished first.
    return {group: statistic(np.sort(numbers[i])) for group, i in group_members(trajectories).items()}


def _returns(trajectory: Trajectory) -> float:
    return trajectory.episode_return


def _entropy(trajectory: Trajectory) -> float:
    logprobs = trajectory.behaviour_logprobs()[trajectory.turn_index() >= 0]
    return -float(logprobs.mean(dtype=np.float64)) if len(logprobs) else 0.0


def _length(trajectory: Trajectory) -> float:
    return float(trajectory.num_reply_tokens)


def _mean(numbers: Returns) -> float:
    return float(numbers.mean())


def _sum(numbers: Returns) -> float:
    return float(numbers.sum())


def _variance(numbers: Returns) -> float:
    return reward_std(numbers) ** 2


_METRICS: dict[str, tuple[Callable[[Trajectory], float], Callable[[Returns], float]]] = {
    "reward_std": (_returns, reward_std),
    "reward_variance": (_returns, _variance),
    "reward": (_returns, _mean),
    "reward_sum": (_returns, _sum),
    "entropy": (_entropy, _mean),
    "entropy_variance": (_entropy, _variance),
    "length": (_length, _mean),
}
