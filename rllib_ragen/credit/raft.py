"""RAFT: learn from what turned out better than the rest of its group, and from nothing else."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rllib_ragen.credit.groups import GroupEstimator, Returns, centred


class RAFT(GroupEstimator):
    """A = (R − mean)/(max − min) for members whose R is above the group's mean, 0 for others (after arXiv 2304.06767).

    Supervised training on the policy's own better samples. With the ratio and its clip, as here, it is RAFT++ (Xiong et
    al. 2025, arXiv 2504.11343). Nothing is pushed down, so a larger learning rate does no harm. Equal returns: A = 0.
    """

    chosen_only: ClassVar[bool] = True

    def advantages(self, returns: Returns) -> Returns:
        """Returns [n] → [n], one group."""
        above = np.maximum(centred(returns), 0.0)
        return above / np.ptp(returns) if above.any() else above
