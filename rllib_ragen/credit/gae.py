"""PPO's generalised advantage estimation over the sampled tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from rllib_ragen.credit.base import Credit, Estimator
from rllib_ragen.credit.rewards import token_rewards
from rllib_ragen.types import FloatArray, Trajectory


class GAE(Estimator):
    """δ_t = r_t + γ V_next − V_t,  A_t = δ_t + γ λ A_next,  returns = A + V (Schulman et al. 2016, arXiv 1506.02438).

    "next" is the next *trained* token: prompt and observation tokens are passed over, neither adding a step nor
    resetting the sum. Nothing is bootstrapped after the last one, also where a cap ended the episode. After that, A is
    whitened over all trained tokens of the batch, (A − mean)/sqrt(var + 1e-8), var with ddof = 1; returns are not.
    """

    needs_values: ClassVar[bool] = True

    def __init__(self, gamma: float = 1.0, lam: float = 1.0, turn_rewards: bool = True) -> None:
        """gamma, lam: discount and GAE's λ, both per trained token; turn_rewards: see `token_rewards`."""
        self.gamma = gamma
        self.lam = lam
        self.turn_rewards = turn_rewards

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """One advantage and one return per trained token."""
        trained = [np.flatnonzero(trajectory.turn_index() >= 0) for trajectory in trajectories]
        seen = [value[at].astype(np.float64) for value, at in zip(values, trained, strict=True)]
        rewards = [token_rewards(t, self.turn_rewards)[at] for t, at in zip(trajectories, trained, strict=True)]
        raw = [self._sweep(r, v) for r, v in zip(rewards, seen, strict=True)]
        mean, scale = _whitening(np.concatenate([np.zeros(0), *raw]))
        return [
            Credit(_place((a - mean) * scale, at, t.num_tokens), _place(a + v, at, t.num_tokens))
            for t, at, a, v in zip(trajectories, trained, raw, seen, strict=True)
        ]

    def _sweep(self, rewards: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        advantages = np.zeros_like(values)
        next_value = next_advantage = 0.0
        for t in reversed(range(len(values))):
            delta = rewards[t] + self.gamma * next_value - values[t]
            next_advantage = delta + self.gamma * self.lam * next_advantage
            next_value = values[t]
            advantages[t] = next_advantage
        return advantages


def _whitening(advantages: npt.NDArray[np.float64]) -> tuple[float, float]:
    if len(advantages) < 2:  # no variance to divide by: the mean alone is taken off
        return float(advantages.sum()), 1.0
    return float(advantages.mean()), float(1.0 / np.sqrt(advantages.var(ddof=1) + 1e-8))


def _place(numbers: npt.NDArray[np.float64], at: npt.NDArray[np.int64], length: int) -> FloatArray:
    placed = np.zeros(length, np.float32)
    placed[at] = numbers
    return placed
