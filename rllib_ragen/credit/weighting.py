"""Factors on trajectories' policy losses: soft re-weighting by reward std, and scaling by the share of kept groups."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.group_scores import group_reward_stds
from rllib_ragen.types import Trajectory


def loss_weights(kept: Sequence[Trajectory], kept_ratio: float, section: CreditSection) -> list[float]:
    """Returns one factor per kept trajectory; the policy loss is linear in it, as it is in the advantage.

    `group_weighting: spread`: std_g / (max std + 1e-6) of the kept groups' raw returns.
    `loss_scaling`: linear: times `kept_ratio`, the share of kept groups; sqrt: times its square root.
    """
    scale = {"none": 1.0, "linear": kept_ratio, "sqrt": math.sqrt(kept_ratio)}[section.loss_scaling]
    if section.group_weighting == "none":
        return [scale] * len(kept)
    reward_stds = group_reward_stds(kept)
    largest = max(reward_stds.values(), default=0.0)
    return [scale * reward_stds[trajectory.group_id] / (largest + 1e-6) for trajectory in kept]
