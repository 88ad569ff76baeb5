"""REINFORCE++: discounted returns, with the batch as the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from rllib_ragen.credit.estimator import Credit, Estimator
from rllib_ragen.credit.token_axis import at_trained, credits_of, discounted, token_rewards, whitened
from rllib_ragen.types import FloatArray, Trajectory


class ReinforcePlusPlus(Estimator):
    """G_t = r_t + γ G_next, then A = (G − mean)/sqrt(var + 1e-8) over the batch (Hu et al. 2025, arXiv 2501.03262).

    "next" is the next *trained* token: observations neither add a step nor reset the sum. Mean and variance (ddof = 1)
    are over all trained tokens of the batch. No critic and no groups; easy and hard instances share one baseline.
    """

    def __init__(self, gamma: float, turn_rewards: bool) -> None:
        """gamma: discount per trained token; turn_rewards: see `token_rewards`."""
        self.gamma = gamma
        self.turn_rewards = turn_rewards

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Returns one advantage per trained token."""
        rewards = at_trained(trajectories, [token_rewards(t, self.turn_rewards) for t in trajectories])
        return credits_of(trajectories, whitened([discounted(r, self.gamma) for r in rewards]))
