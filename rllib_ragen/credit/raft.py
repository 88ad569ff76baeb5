"""RAFT: learn only from trajectories with a return above their group's mean."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rllib_ragen.credit.groups import GroupEstimator, Returns, centred


class RAFT(GroupEstimator):
    """A = (R − mean)/(max − min) for members whose R is above the group's mean, 0 for others (after arXiv 2304.06767).

    Supervised training on the policy's own better samples. With the ratio and its clip, as here, it is RAFT++ (Xiong et
    al. 2025, arXiv 2504.11343). No advantage is negative. Equal returns: A = 0.
    """

    chosen_only: ClassVar[bool] = True

    def advantages(self, returns: Returns) -> Returns:
        """Returns [n] advantages of one group's [n] returns."""
        above = np.maximum(centred(returns), 0.0)
        return above / np.ptp(returns) if above.any() else above
