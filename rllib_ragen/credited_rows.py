"""From one policy's trajectories to the rows that its learner sees."""

from __future__ import annotations

from collections.abc import Sequence

from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_ragen.config import CreditSection
from rllib_ragen.credit.base import Estimator
from rllib_ragen.credit.normalise import normalised_rewards
from rllib_ragen.credit.rows import to_rows
from rllib_ragen.credit.weighting import loss_weights
from rllib_ragen.learner.critic import critic_values
from rllib_ragen.types import TokenRow, Trajectory


def credited_rows(
    trajectories: Sequence[Trajectory],
    kept_ratio: float,
    section: CreditSection,
    estimator: Estimator,
    learners: LearnerGroup,
) -> list[TokenRow]:
    """One per trajectory with a sampled token, in order.

    Args:
        trajectories: of one policy, whole groups, none failed.
        kept_ratio: share of the batch's groups that these are.
        section: how rewards become advantages.
        estimator: the section's.
        learners: who knows the critic's values, where the estimator needs them.
    """
    values = critic_values(learners, trajectories) if estimator.needs_values else None
    credits = estimator(normalised_rewards(trajectories, section), values)
    weights = loss_weights(trajectories, kept_ratio, section)
    return to_rows(trajectories, credits, values, section.normalize, weights)
