"""The path from one policy's trajectories to its learner's rows."""

from __future__ import annotations

from collections.abc import Sequence

from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_ragen.config.schema import CreditSection, LearnerSection
from rllib_ragen.credit.estimator import Estimator
from rllib_ragen.credit.kl_reward import with_kl_cost
from rllib_ragen.credit.normalise import normalised_rewards
from rllib_ragen.credit.overlong import without_overlong
from rllib_ragen.credit.rows import to_rows
from rllib_ragen.credit.weighting import loss_weights
from rllib_ragen.learner.remote_scores import critic_values, reference_logprobs
from rllib_ragen.types import TokenRow, Trajectory


def assign_credit(
    trajectories: Sequence[Trajectory],
    kept_ratio: float,
    *,
    section: CreditSection,
    estimator: Estimator,
    learners: LearnerGroup,
    update: LearnerSection,
    max_reply_tokens: int,
) -> tuple[list[TokenRow], dict[str, float]]:
    """Computes one row per trajectory with a sampled token, in order, and the metrics of this step.

    Args:
        trajectories: trajectories of one policy, whole groups, none failed.
        kept_ratio: share of the batch's groups that were kept.
        section: settings of the credit.
        estimator: the section's estimator.
        learners: the learners, which compute the critic's values and the reference's log-probs if needed.
        update: settings of the KL penalty.
        max_reply_tokens: length limit of a reply.
    """
    measured: dict[str, float] = {}
    values = critic_values(learners, trajectories) if estimator.needs_values else None
    judged = without_overlong(trajectories, max_reply_tokens, section.overlong_cache)
    if update.kl_coeff and update.kl_in == "reward":
        reference = reference_logprobs(learners, judged)
        judged, measured["kl"] = with_kl_cost(judged, reference, update.kl_coeff, update.kl_estimator)
    credits = estimator(normalised_rewards(judged, section), values)
    weights = loss_weights(trajectories, kept_ratio, section)
    return to_rows(trajectories, credits, values, section.normalize, weights), measured
