"""Estimates of the policy's divergence from a reference, token by token."""

from __future__ import annotations

from typing import Literal

import torch

from rllib_ragen.learner.losses.policy import MAX_LOG_RATIO

KLEstimator = Literal["k1", "k2", "k3"]


def kl_loss(logprobs: torch.Tensor, reference_logprobs: torch.Tensor, estimator: KLEstimator) -> torch.Tensor:
    """Per sampled token, with d = log π − log π_ref clamped to ±20:

    k1 = d: unbiased as a number, may be negative; as a loss its gradient ∇ log π is 0 on average, so it only adds
    noise. k2 = ½ d²: its gradient d ∇ log π is that of KL(π ‖ π_ref) on fresh samples. k3 = exp(−d) − 1 + d: unbiased,
    never negative; its gradient (1 − exp(−d)) ∇ log π agrees with k2's near d = 0 and pulls harder below the reference.

    Schulman 2020, "Approximating KL Divergence" (http://joschu.net/blog/kl-approx.html).

    Raises ValueError for an unknown estimator.
    """
    d = (logprobs - reference_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    if estimator == "k1":
        return d
    if estimator == "k2":
        return 0.5 * d**2
    if estimator == "k3":
        return torch.expm1(-d) + d
    raise ValueError(f"learner.kl_estimator: unknown {estimator!r}; allowed: k1, k2, k3.")
