"""Conversion of trajectories with credits into the learner's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from rllib_ragen.credit.estimator import Credit
from rllib_ragen.credit.groups import ROUNDING
from rllib_ragen.types import FloatArray, TokenRow, Trajectory


def to_rows(
    trajectories: Sequence[Trajectory],
    credits: Sequence[Credit],
    values: Sequence[FloatArray] | None,
    normalize: Literal["none", "batch"],
    weights: Sequence[float] | None = None,
) -> list[TokenRow]:
    """Returns one row per trajectory, in order; trajectories without a sampled token have no loss and are left out.

    The mask is exactly the sampled tokens, including replies that were cut off at their length limit. Values are the
    critic's, [num_tokens] each, or None. normalize "batch": advantages are divided by their std (ddof = 0, + 1e-6)
    over the batch's trained tokens (unless all are equal), so that the gradient's size does not depend on the scale of
    the rewards; they are not centred, so every group's own baseline stays where it was. weights: factors on the
    trajectories' policy losses (`loss_weights`); None: 1 each.

    Raises ValueError for a trajectory whose first token was sampled: it has no context to be predicted from.
    """
    scale = _batch_scale(trajectories, credits) if normalize == "batch" else np.float32(1)
    old_values = values if values is not None else [np.zeros(t.num_tokens, np.float32) for t in trajectories]
    factors = weights if weights is not None else [1.0] * len(trajectories)
    return [
        _row(trajectory, credit, value, scale, factor)
        for trajectory, credit, value, factor in zip(trajectories, credits, old_values, factors, strict=True)
        if trajectory.num_reply_tokens > 0
    ]


def _row(trajectory: Trajectory, credit: Credit, values: FloatArray, scale: np.float32, weight: float) -> TokenRow:
    mask = (trajectory.turn_index() >= 0).astype(np.float32)
    if mask[0]:
        raise ValueError(f"A trajectory of group {trajectory.group_id} begins with a sampled token; a prompt must.")
    return TokenRow(
        token_ids=trajectory.token_ids(),
        mask=mask,
        logprobs=trajectory.behaviour_logprobs(),
        advantages=credit.advantages * scale,
        returns=credit.returns,
        old_values=np.where(mask > 0, values, np.float32(0)),
        weight=weight,
        module_id=trajectory.module_id,
    )


def _batch_scale(trajectories: Sequence[Trajectory], credits: Sequence[Credit]) -> np.float32:
    trained = [c.advantages[t.turn_index() >= 0] for t, c in zip(trajectories, credits, strict=True)]
    advantages = np.concatenate([np.zeros(0, np.float32), *trained]).astype(np.float64)
    std = advantages.std() if len(advantages) else 0.0
    # Advantages that are all the same, as those of cloning, have no scale to be freed of.
    return np.float32(1.0 / (std + 1e-6)) if std > ROUNDING else np.float32(1)
