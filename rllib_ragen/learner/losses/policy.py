"""The clipped surrogate of per-token log-ratios."""

from __future__ import annotations

import torch

from rllib_ragen.credit.kl_estimate import bounded_log_ratio
from rllib_ragen.learner.losses.registry import PolicyTokens


def policy_loss(
    log_ratio: torch.Tensor,
    advantages: torch.Tensor,
    *,
    clip_low: float,
    clip_high: float,
    clip_dual: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns −min(ρ A, clip(ρ, 1 − clip_low, 1 + clip_high) A), ρ = exp(log_ratio), and whether it was clipped.

    Both tensors have one shape, one entry per token; log_ratio is log π − log π_old in nats (the token's own, or its
    trajectory's: sequence.py), clamped to ±20. For A < 0 the loss is capped at −clip_dual · A (None: no cap), so that
    one token with a huge ratio cannot dominate the batch.

    Returns (loss, clipped): loss per token, to be minimised; clipped is True where a clip binds and the gradient is 0.

    PPO: Schulman et al. 2017, arXiv 1707.06347; dual clip: Ye et al. 2020, arXiv 1912.09729; unequal bounds
    ("clip-higher"): Yu et al. 2025, arXiv 2503.14476.
    """
    ratio = bounded_log_ratio(log_ratio).exp()
    free = -ratio * advantages
    bounded = -ratio.clamp(1.0 - clip_low, 1.0 + clip_high) * advantages
    loss = torch.maximum(free, bounded)
    clipped = bounded > free
    if clip_dual is not None:
        cap = -clip_dual * advantages
        capped = (advantages < 0) & (loss > cap)
        loss = torch.where(capped, cap, loss)
        clipped = clipped | capped
    return loss, clipped


def token_loss(tokens: PolicyTokens) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns PPO's `policy_loss`, of each token's own ratio, with the clips of the config."""
    config = tokens.config
    return policy_loss(
        tokens.log_ratio,
        tokens.advantages,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        clip_dual=config.clip_dual,
    )


def log_likelihood_loss(tokens: PolicyTokens) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns −A · (log π − log π_old), whose gradient is that of −A · log π; nothing is clipped.

    With A ≥ 0 it is supervised training on sampled tokens, each weighted by its advantage (behaviour cloning;
    advantage-weighted regression, Peng et al. 2019, arXiv 1910.00177). A negative advantage has no bound here.
    """
    return -tokens.advantages * tokens.log_ratio, torch.zeros_like(tokens.log_ratio, dtype=torch.bool)
