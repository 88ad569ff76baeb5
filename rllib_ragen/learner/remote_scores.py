"""Values of the critic and log-probs of the reference policy for trajectories, computed by all learners."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.learner_calls import on_every_learner
from rllib_ragen.types import FloatArray, TokenRow, Trajectory


def critic_values(learners: LearnerGroup, trajectories: Sequence[Trajectory]) -> list[FloatArray]:
    """Returns [num_tokens] per trajectory: values of the states in which trained tokens are sampled, 0 elsewhere."""
    return _shared_out(learners, trajectories, lambda learner, rows: learner.critic_values(rows), "the critic")


def reference_logprobs(learners: LearnerGroup, trajectories: Sequence[Trajectory]) -> list[FloatArray]:
    """Returns [num_tokens] per trajectory: the reference policy's log-probs of sampled tokens, 0 elsewhere."""
    return _shared_out(learners, trajectories, lambda learner, rows: learner.reference_logprobs(rows), "the reference")


def _shared_out(
    learners: LearnerGroup,
    trajectories: Sequence[Trajectory],
    scores: Callable[[StarPOLearner, list[TokenRow]], list[FloatArray]],
    what: str,
) -> list[FloatArray]:
    rows = [unlabelled_row(trajectory) for trajectory in trajectories]
    count = max(1, len(learners))
    shares = [list(range(k, len(rows), count)) for k in range(count)]

    def own_scores(learner: StarPOLearner) -> list[FloatArray]:
        return scores(learner, [rows[i] for i in shares[learner.index]])

    results = on_every_learner(learners, own_scores, what)
    found = {i: v for share, own in zip(shares, results, strict=True) for i, v in zip(share, own, strict=True)}
    return [found[i] for i in range(len(rows))]


def unlabelled_row(trajectory: Trajectory) -> TokenRow:
    """Returns a row with the trajectory's tokens and mask, without credit."""
    zeros = np.zeros(trajectory.num_tokens, np.float32)
    return TokenRow(
        token_ids=trajectory.token_ids(),
        mask=(trajectory.turn_index() >= 0).astype(np.float32),
        logprobs=zeros,
        advantages=zeros,
        returns=zeros,
        old_values=zeros,
        module_id=trajectory.module_id,
    )
