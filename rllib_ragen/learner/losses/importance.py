"""Truncated importance sampling, for the numerical difference between learner and sampler."""

from __future__ import annotations

import torch

from rllib_ragen.credit.kl_estimate import bounded_log_ratio


def importance_weights(old_logprobs: torch.Tensor, behaviour_logprobs: torch.Tensor, cap: float) -> torch.Tensor:
    """Returns min(cap, exp(old − behaviour)) per token, without gradient: a factor on the token's policy loss.

    old_logprobs are the learner's, of the weights that sampled; behaviour_logprobs are the sampler's; their log-ratio
    is clamped to ±20. If both agree the weight is 1; truncation trades a little bias for bounded variance.

    Ionides 2008, "Truncated Importance Sampling"; for sampler/trainer mismatch: Yao et al. 2025, "Your Efficient RL
    Framework Secretly Brings You Off-Policy RL Training".
    """
    log_ratio = (old_logprobs - behaviour_logprobs).detach()
    return bounded_log_ratio(log_ratio).exp().clamp(max=cap)
