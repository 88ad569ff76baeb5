"""Behaviour cloning: every stored trajectory is taken for an example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rllib_ragen.credit.estimator import Credit, Estimator
from rllib_ragen.types import FloatArray, Trajectory


class Cloning(Estimator):
    """A = 1 on every sampled token, whatever the rewards (Pomerleau 1989, ALVINN).

    With `learner.loss: log_likelihood` the update is supervised training on the replies; with a ratio it is that within
    the clip of the policy that sampled. Meant for stored trajectories: of one's own rollouts it would clone anything.
    """

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Returns the mask of the sampled tokens, and no targets for a critic."""
        masks = [(trajectory.turn_index() >= 0).astype(np.float32) for trajectory in trajectories]
        return [Credit(mask, np.zeros_like(mask)) for mask in masks]
