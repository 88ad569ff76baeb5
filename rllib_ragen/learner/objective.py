"""The loss of one micro-batch, and what is reported of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rllib_ragen.config import LearnerSection
from rllib_ragen.learner.batching import MicroBatch
from rllib_ragen.learner.losses.policy import policy_loss
from rllib_ragen.learner.losses.value import value_loss
from rllib_ragen.models.llm_module import TokenOutputs

SUMS = ("policy_loss", "value_loss", "entropy", "clipped", "tokens", "gap")
"""Entries of `Objective.sums`, each a sum over trained tokens (the losses with their scales)."""


@dataclass(frozen=True)
class Objective:
    """Σ over the micro-batch's trained tokens; micro-batches and learners add up to the minibatch's loss."""

    loss: Tensor
    sums: Tensor
    """[len(SUMS)] float64, detached."""
    largest_gap: Tensor
    """max |log π − log π_behaviour|, detached."""


def objective(outputs: TokenOutputs, batch: MicroBatch, config: LearnerSection) -> Objective:
    """scale · (weight · clipped surrogate − entropy_coeff · H + value_coeff · value loss), summed over tokens."""
    surrogate, clipped = policy_loss(
        outputs["logprobs"],
        batch.old_logprobs,
        batch.advantages,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        clip_dual=config.clip_dual,
    )
    policy = (batch.scale * batch.weight * surrogate).sum()
    loss = policy
    entropy = outputs["entropy"]
    if config.entropy_coeff:
        loss = loss - config.entropy_coeff * (batch.scale * entropy).sum()
    critic = torch.zeros_like(policy)
    if "values" in outputs:
        errors = value_loss(outputs["values"], batch.old_values, batch.returns, config.value_clip)
        critic = (batch.scale * errors).sum()
        loss = loss + config.value_coeff * critic
    gap = (outputs["logprobs"].detach() - batch.old_logprobs).abs()
    numbers = [policy, critic, entropy.sum(), clipped.sum(), torch.tensor(len(gap)), gap.sum()]
    sums = torch.stack([number.detach().to(gap.device, torch.float64) for number in numbers])
    return Objective(loss, sums, gap.max() if len(gap) else gap.new_zeros(()))
