"""REINFORCE++ with the group's mean as the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from rllib_ragen.credit.estimator import Credit
from rllib_ragen.credit.groups import GroupEstimator, Returns, centred, compared_groups
from rllib_ragen.credit.token_axis import at_trained, credits_of, whitened
from rllib_ragen.types import FloatArray, Trajectory


class ReinforcePlusPlusBaseline(GroupEstimator):
    """R − mean_g on every trained token, then whitened over the batch's (Hu et al. 2025, arXiv 2501.03262).

    Whitening is (x − mean)/sqrt(var + 1e-8), var with ddof = 1. Its mean is 0 up to the lengths of trajectories, so a
    group of equal returns gets a small advantage, not exactly 0. A group of one: A = 0, and it is left out of mean and
    variance.
    """

    def advantages(self, returns: Returns) -> Returns:
        """Returns [n] advantages of one group's [n] returns, not yet whitened."""
        return centred(returns)

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Returns one advantage per trajectory, on its trained tokens."""
        raw = [credit.advantages for credit in super().assign(trajectories, values)]
        # Of a group of one these are 0, and stay so.
        advantages = at_trained(trajectories, raw)
        compared = sorted(index for members in compared_groups(trajectories) for index in members)
        for index, own in zip(compared, whitened([advantages[i] for i in compared]), strict=True):
            advantages[index] = own
        return credits_of(trajectories, advantages)
