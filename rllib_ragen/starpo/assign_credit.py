"""From one policy's trajectories to the rows that its learner sees, each environment by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_ragen.config.environments import reply_limits
from rllib_ragen.config.schema import CreditSection, LearnerSection
from rllib_ragen.credit.by_environment import rows_by_environment
from rllib_ragen.credit.estimator import Estimator
from rllib_ragen.credit.kl_reward import with_kl_cost
from rllib_ragen.credit.overlong import without_overlong
from rllib_ragen.learner.remote_scores import critic_values, reference_logprobs
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.types import TokenRow, Trajectory

RowsOf = Callable[[Sequence[Trajectory], Mapping[str, float]], tuple[list[TokenRow], dict[str, float]]]
"""(trajectories, kept_ratios) of `assign_credit` → what it returns."""


def credit_of_run(config: StarPOConfig, estimator: Estimator, learners: LearnerGroup) -> RowsOf:
    """Returns `assign_credit` with all that a run's config says of it."""
    return partial(
        assign_credit,
        section=config.credit_section(),
        estimator=estimator,
        learners=learners,
        update=config.learner_section(),
        max_reply_tokens=reply_limits(config.worlds(), config.max_reply_tokens),
    )


def assign_credit(
    trajectories: Sequence[Trajectory],
    kept_ratios: Mapping[str, float],
    *,
    section: CreditSection,
    estimator: Estimator,
    learners: LearnerGroup,
    update: LearnerSection,
    max_reply_tokens: Mapping[str, int],
) -> tuple[list[TokenRow], dict[str, float]]:
    """Computes one row per trajectory with a sampled token, in order, and the metrics of this step.

    Args:
        trajectories: of one policy, whole groups, none failed.
        kept_ratios: share of its groups that these are, by an environment's label; 1 where none is told.
        section: how rewards become advantages.
        estimator: the section's.
        learners: who knows the values of the critic and the log-probs of the reference, where they are needed.
        update: what the divergence from the reference costs.
        max_reply_tokens: from where a reply is cut off, by an environment's label.
    """
    measured: dict[str, float] = {}
    values = critic_values(learners, trajectories) if estimator.needs_values else None
    judged = [
        without_overlong(trajectory, max_reply_tokens[trajectory.env], section.overlong_cache)
        for trajectory in trajectories
    ]
    if update.kl_coeff and update.kl_in == "reward":
        reference = reference_logprobs(learners, judged)
        judged, measured["kl"] = with_kl_cost(judged, reference, update.kl_coeff, update.kl_estimator)
    return rows_by_environment(trajectories, judged, values, estimator, section, kept_ratios), measured
