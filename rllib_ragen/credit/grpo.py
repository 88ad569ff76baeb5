"""GRPO: returns standardised within the group."""

from __future__ import annotations

from rllib_ragen.credit.groups import GroupEstimator, Returns, centred, reward_std


class GRPO(GroupEstimator):
    """A = (R − mean_g) / (std_g + 1e-6), std with ddof = 1 (Shao et al. 2024, arXiv 2402.03300).

    A group of equal returns: A = 0.
    A group in which nobody succeeds is standardised too, so small differences in penalties count in full.
    """

    def advantages(self, returns: Returns) -> Returns:
        """Returns [n] advantages of one group's [n] returns."""
        return centred(returns) / (reward_std(returns) + 1e-6)
