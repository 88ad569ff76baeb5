"""RLOO: REINFORCE with the mean of the others as the baseline."""

from __future__ import annotations

from rllib_ragen.credit.groups import GroupEstimator, Returns, centred


class RLOO(GroupEstimator):
    """A = R − mean of the other members' R = n/(n−1) · (R − mean_g) (Ahmadian et al. 2024, arXiv 2402.14740).

    Equal returns: A = 0.
    """

    def advantages(self, returns: Returns) -> Returns:
        """Returns [n] advantages of one group's [n] returns."""
        size = len(returns)
        return size / (size - 1) * centred(returns)
