"""The policy's divergence from a reference as a loss, token by token."""

from __future__ import annotations

import torch

from rllib_ragen.credit.kl_estimate import KLEstimator, kl_estimate


def kl_loss(logprobs: torch.Tensor, reference_logprobs: torch.Tensor, estimator: KLEstimator) -> torch.Tensor:
    """Estimates KL(π ‖ π_ref) per sampled token (`kl_estimate`), with a gradient, where the estimators differ:

    k1's is ∇ log π, on average 0, so it only adds noise. k2's d ∇ log π is that of KL(π ‖ π_ref) on fresh samples.
    k3's (1 − exp(−d)) ∇ log π agrees with k2's near d = 0 and pulls harder below the reference.

    Raises ValueError for an unknown estimator.
    """
    return kl_estimate(logprobs - reference_logprobs, estimator, torch.expm1)
