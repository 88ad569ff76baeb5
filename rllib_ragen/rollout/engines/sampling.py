"""Sampling one token per row from one uniform number: a row's token depends only on its own logits and seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class SamplingTensors:
    """Sampling settings of B rows, as [B] tensors."""

    temperature: Tensor
    """Temperature; 0: greedy."""
    top_p: Tensor
    top_k: Tensor
    """Number of likeliest tokens to sample from; 0: the whole vocabulary."""
    uniforms: Tensor
    """Random numbers in [0, 1), float64."""

    @property
    def truncates(self) -> bool:
        """Whether any row truncates the vocabulary."""
        return bool((self.top_p < 1).any() or (self.top_k > 0).any())


def sample_tokens(logits: Tensor, settings: SamplingTensors) -> tuple[Tensor, Tensor]:
    """Samples one token per row by inverse CDF.

    Args:
        logits: [B, V] float32.
        settings: temperature, truncation and uniforms of each row.

    Returns:
        (tokens [B] int64, log-probs [B] float32): the log-prob of the token under the distribution that it was drawn
        from, of a greedy token under the untempered one. NaN marks a row whose logits are not a distribution.
    """
    greedy = settings.temperature == 0
    temperature = torch.where(greedy, torch.ones_like(settings.temperature), settings.temperature)
    logprobs = (logits / temperature[:, None]).log_softmax(-1)
    if settings.truncates:
        logprobs = _truncate(logprobs, settings.top_p, settings.top_k, greedy)
    # float64: the CDF of a large vocabulary must not lose its tail.
    cdf = logprobs.double().exp_().cumsum_(-1)
    targets = (settings.uniforms * cdf[:, -1])[:, None]
    drawn = torch.searchsorted(cdf, targets, right=True)[:, 0].clamp_(max=logits.shape[-1] - 1)
    tokens = torch.where(greedy, logits.argmax(-1), drawn)
    # Of logits that are no distribution the normaliser is NaN, and with it every log-prob.
    return tokens, logprobs.gather(1, tokens[:, None])[:, 0]


def _truncate(logprobs: Tensor, top_p: Tensor, top_k: Tensor, greedy: Tensor) -> Tensor:
    """Keeps the top_k likeliest tokens, then the fewest that reach top_p, and renormalises over them."""
    ordered, order = logprobs.sort(-1, descending=True)
    rank = torch.arange(logprobs.shape[-1], device=logprobs.device)[None]
    keep = (top_k[:, None] == 0) | (rank < top_k[:, None])
    probs = ordered.masked_fill(~keep, -torch.inf).softmax(-1)
    keep &= (probs.cumsum(-1) - probs) < top_p[:, None]
    keep[:, 0] = True
    keep |= greedy[:, None]
    kept = torch.zeros_like(keep).scatter_(1, order, keep)
    return logprobs.masked_fill(~kept, -torch.inf).log_softmax(-1)
