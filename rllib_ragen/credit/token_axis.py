"""The token axis: placement of rewards, and selection, discounting and whitening of values on trained tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rllib_ragen.credit.estimator import Credit
from rllib_ragen.types import Trajectory

Numbers = npt.NDArray[np.float64]


def token_rewards(trajectory: Trajectory, turn_rewards: bool) -> Numbers:
    """Returns [num_tokens] raw rewards on trained tokens; their sum is the episode's return (0 without a trained
    token).

    turn_rewards: each turn's reward on that turn's last sampled token; otherwise the sum on the episode's last one.
    The reward of a turn without a sampled token goes to the last sampled token before it, else to the first one.
    """
    turn_index = trajectory.turn_index()
    rewards = np.zeros(len(turn_index), np.float64)
    trained = np.flatnonzero(turn_index >= 0)
    if len(trained) == 0:
        return rewards
    if not turn_rewards:
        rewards[trained[-1]] = trajectory.episode_return
        return rewards
    for k, turn in enumerate(trajectory.turns):
        last = int(np.searchsorted(turn_index[trained], k, side="right")) - 1
        rewards[trained[max(last, 0)]] += turn.reward
    return rewards


def at_trained(trajectories: Sequence[Trajectory], arrays: Sequence[npt.NDArray[Any]]) -> list[Numbers]:
    """Selects the entries at sampled tokens from each trajectory's [num_tokens] array, in order."""
    return [
        array[trajectory.turn_index() >= 0].astype(np.float64)
        for trajectory, array in zip(trajectories, arrays, strict=True)
    ]


def discounted(terms: Numbers, factor: float) -> Numbers:
    """Returns [n] x_t = terms_t + factor · x_{t+1}, x_n = 0."""
    sums = np.zeros_like(terms)
    following = 0.0
    for t in reversed(range(len(terms))):
        following = terms[t] + factor * following
        sums[t] = following
    return sums


def whitened(batch: Sequence[Numbers]) -> list[Numbers]:
    """Returns (x − mean)/sqrt(var + 1e-8) over the whole batch, var with ddof = 1; a single number is only centred."""
    together = np.concatenate([np.zeros(0), *batch])
    if len(together) < 2:
        return [numbers - together.sum() for numbers in batch]
    scale = 1.0 / np.sqrt(together.var(ddof=1) + 1e-8)
    return [(numbers - together.mean()) * scale for numbers in batch]


def credits_of(
    trajectories: Sequence[Trajectory], advantages: Sequence[Numbers], returns: Sequence[Numbers] | None = None
) -> list[Credit]:
    """Returns credits from advantages and returns at trained tokens; without `returns` (no critic) these are 0."""
    targets = returns if returns is not None else [np.zeros_like(numbers) for numbers in advantages]
    credits = []
    for trajectory, own_advantages, own_targets in zip(trajectories, advantages, targets, strict=True):
        trained = trajectory.turn_index() >= 0
        credit = Credit(np.zeros(len(trained), np.float32), np.zeros(len(trained), np.float32))
        credit.advantages[trained] = own_advantages
        credit.returns[trained] = own_targets
        credits.append(credit)
    return credits
