"""One update of all policies with rows in a batch."""

from __future__ import annotations

from collections.abc import Sequence

from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.utils.metrics import LEARNER_RESULTS
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from ragen_envs.seeds import Stream, generator
from rllib_ragen.learner.learner_calls import at_work
from rllib_ragen.learner.training_data import TokenTrainingData
from rllib_ragen.learner.update_metrics import learner_metrics
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.types import TokenRow, Trajectory


def update_policies(
    learners: LearnerGroup,
    rows: Sequence[TokenRow],
    config: StarPOConfig,
    iteration: int,
    metrics: MetricsLogger,
) -> dict[str, float]:
    """Runs optimiser steps on `rows` in shuffled minibatches, `num_epochs` times → `learner_metrics`."""
    data = TokenTrainingData.plan(
        rows,
        num_minibatches=config.num_minibatches,
        num_epochs=config.num_epochs,
        rng=generator(Stream.MINIBATCH_ORDER, config.seed, iteration),
    )
    with at_work(learners, "the update"):
        results = learners.update(training_data=data)
    metrics.aggregate(results, key=LEARNER_RESULTS)
    return learner_metrics(
        {
            module_id: metrics.peek((LEARNER_RESULTS, module_id), default={}, latest_merged_only=True)
            for module_id in sorted({row.module_id for row in rows})
        }
    )


def why_nothing_to_learn(trajectories: Sequence[Trajectory], filter_name: str) -> str:
    """Returns why a batch has no row to train on, as half a sentence."""
    failed = [trajectory for trajectory in trajectories if trajectory.stop_reason.failed]
    if len(failed) == len(trajectories):
        return f"every trajectory failed, the first with: {failed[0].error}"
    if not any(trajectory.num_reply_tokens for trajectory in trajectories):
        return "no token was sampled: rollout.max_context_tokens leaves no room behind the first prompt"
    return f"filter {filter_name} kept no group, because no group's returns differ"
