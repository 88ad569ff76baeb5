"""PPO's generalised advantage estimation over the sampled tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rllib_ragen.credit.estimator import Credit, Estimator
from rllib_ragen.credit.token_axis import Numbers, at_trained, credits_of, discounted, token_rewards, whitened
from rllib_ragen.types import FloatArray, Trajectory


class GAE(Estimator):
    """δ_t = r_t + γ V_next − V_t,  A_t = δ_t + γ λ A_next,  returns = A + V (Schulman et al. 2016, arXiv 1506.02438).

    "next" is the next *trained* token: prompt and observation tokens are skipped; they neither add a step nor reset the
    sum. There is no bootstrap after the last one, even if a cap ended the episode. After that, A is
    whitened over all trained tokens of the batch, (A − mean)/sqrt(var + 1e-8), var with ddof = 1; returns are not.
    """

    needs_values: ClassVar[bool] = True

    def __init__(self, gamma: float = 1.0, lam: float = 1.0, turn_rewards: bool = True) -> None:
        """gamma, lam: discount and GAE's λ, both per trained token; turn_rewards: see `token_rewards`."""
        self.gamma = gamma
        self.lam = lam
        self.turn_rewards = turn_rewards

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Returns one advantage and one return per trained token."""
        seen = at_trained(trajectories, values)
        rewards = at_trained(trajectories, [token_rewards(t, self.turn_rewards) for t in trajectories])
        raw = [generalised(r, v, self.gamma, self.lam) for r, v in zip(rewards, seen, strict=True)]
        return credits_of(trajectories, whitened(raw), [a + v for a, v in zip(raw, seen, strict=True)])


def generalised(rewards: Numbers, values: Numbers, gamma: float, lam: float) -> Numbers:
    """Returns [n] advantages of n successive steps with [n] rewards and values; the value after the last step is 0."""
    following = np.append(values[1:], 0.0)
    return discounted(rewards + gamma * following - values, gamma * lam)
