"""From one policy's trajectories to the rows that its learner sees."""

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
    """Returns one row per trajectory with a sampled token, in order; and what was measured on the way.

    Args:
        trajectories: of one policy, whole groups, none failed.
        kept_ratio: share of the batch's groups that these are.
        section: how rewards become advantages.
        estimator: the section's.
        learners: who knows the values of the critic and the log-probs of the reference, where they are needed.
        update: what the divergence from the reference costs.
        max_reply_tokens: from where a reply is cut off.
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
