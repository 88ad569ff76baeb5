"""The loss of one micro-batch, and its metrics."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.credit.kl_estimate import kl_estimate
from rllib_ragen.learner.losses.importance import importance_weights
from rllib_ragen.learner.losses.kl import kl_loss
from rllib_ragen.learner.losses.registry import PolicyTokens, checked_loss
from rllib_ragen.learner.losses.value import value_loss
from rllib_ragen.learner.microbatches import MicroBatch
from rllib_ragen.models.llm_module import TokenOutputs

SUMS = ("policy_loss", "value_loss", "entropy", "clipped", "tokens", "gap", "gap_k3", "kl")
"""Names of the entries of `Objective.sums`, each a sum over trained tokens (losses with their scales)."""


@dataclass(frozen=True)
class Objective:
    """Sums over the micro-batch's trained tokens; those of all micro-batches and learners add up to the minibatch's."""

    loss: Tensor
    sums: Tensor
    """[len(SUMS)] float64, detached."""
    largest_gap: Tensor
    """Maximum of |log π − log π_behaviour|, detached."""


def objective(outputs: TokenOutputs, batch: MicroBatch, config: LearnerSection) -> Objective:
    """Returns Σ scale · (weight · clipped surrogate − entropy_coeff · H + kl_coeff · KL + value_coeff · value loss).

    π_old of the surrogate's ratio is the sampler's policy as computed by the sampler. With `tis_cap` it is the same
    policy as computed by the learner, and the truncated ratio of the two multiplies the token's weight.
    """
    surrogate, clipped = _surrogate(outputs["logprobs"], batch, config)
    policy = (batch.scale * surrogate).sum()
    loss = policy
    entropy = outputs["entropy"]
    if config.entropy_coeff:
        loss = loss - config.entropy_coeff * (batch.scale * entropy).sum()
    kl = torch.zeros_like(policy)
    if batch.reference_logprobs is not None:
        per_token = kl_loss(outputs["logprobs"], batch.reference_logprobs, config.kl_estimator)
        loss = loss + config.kl_coeff * (batch.scale * per_token).sum()
        kl = per_token.sum()
    critic = torch.zeros_like(policy)
    if "values" in outputs:
        errors = value_loss(outputs["values"], batch.old_values, batch.returns, config.value_clip)
        critic = (batch.scale * errors).sum()
        loss = loss + config.value_coeff * critic
    difference = outputs["logprobs"].detach() - batch.behaviour_logprobs
    gap, k3 = difference.abs(), kl_estimate(-difference, "k3", torch.expm1)
    numbers = [policy, critic, entropy.sum(), clipped.sum(), torch.tensor(len(gap)), gap.sum(), k3.sum(), kl]
    sums = torch.stack([number.detach().to(gap.device, torch.float64) for number in numbers])
    return Objective(loss, sums, gap.max() if len(gap) else gap.new_zeros(()))


def _surrogate(logprobs: Tensor, batch: MicroBatch, config: LearnerSection) -> tuple[Tensor, Tensor]:
    """Returns (weighted policy loss, clipped) per token."""
    old, weight = batch.behaviour_logprobs, batch.weight
    if config.tis_cap is not None:
        old = logprobs.detach() if batch.old_logprobs is None else batch.old_logprobs
        weight = weight * importance_weights(old, batch.behaviour_logprobs, config.tis_cap)
    tokens = PolicyTokens(logprobs - old, batch.advantages, batch.rows, config)
    loss, clipped = checked_loss(config.loss, tokens)
    return weight * loss, clipped
