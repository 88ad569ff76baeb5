"""Dr. GRPO: GRPO without the division by the group's std."""

from __future__ import annotations

from rllib_ragen.credit.groups import GroupEstimator, Returns, centred


class DrGRPO(GroupEstimator):
    """A = R − mean_g (Liu et al. 2025, arXiv 2503.20783). Meant for `learner.aggregation: seq-mean-token-sum`.

    A group of equal returns: A = 0.
    """

    def advantages(self, returns: Returns) -> Returns:
        """Returns [n] advantages of one group's [n] returns."""
        return centred(returns)
