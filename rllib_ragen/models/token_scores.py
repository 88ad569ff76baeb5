"""Log-probs and entropies of given tokens without a [tokens × vocabulary] tensor, forward or backward."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rllib_ragen.models.logit_head import LogitHead

CHUNK_ELEMENTS = 1 << 25
"""Logits computed at a time: chosen freely, 128 MB in float32, 220 tokens of a 150k vocabulary."""


class Scores(NamedTuple):
    """Log-probs [N] of tokens and entropies [N] of their distributions, in nats, float32 (float64 stays)."""

    logprobs: Tensor
    entropy: Tensor


def token_scores(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    tokens: Tensor,
    head: LogitHead,
    *,
    entropy: bool = True,
    dtype: torch.dtype | None = None,
    chunk_elements: int | None = None,
) -> Scores:
    """Scores `tokens` [N] int64 in the states `hidden` [N, H], with an output layer of `weight` [V, H] and `bias` [V].

    Logits exist for chunks of about `chunk_elements` (default: CHUNK_ELEMENTS) at a time; the backward pass recomputes
    them, unless one chunk holds all. The peak is some four such chunks and the layer's gradient, for any N.
    Without `entropy` that entry is empty. Products are of type `dtype` (default: the weight's), sums of at least
    float32.
    """
    chunk = max(1, (chunk_elements or CHUNK_ELEMENTS) // weight.shape[0])
    arguments = (hidden, weight, bias, tokens, head, entropy, dtype or weight.dtype, chunk)
    return Scores(*_TokenScores.apply(*arguments))  # type: ignore[no-untyped-call]


class _TokenScores(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        tokens: Tensor,
        head: LogitHead,
        entropy: bool,
        dtype: torch.dtype,
        chunk: int,
    ) -> tuple[Tensor, Tensor]:
        size = len(tokens)
        wide = torch.promote_types(dtype, torch.float32)
        logprobs, lse = (torch.empty(size, dtype=wide, device=hidden.device) for _ in range(2))
        entropies = torch.empty(size if entropy else 0, dtype=wide, device=hidden.device)
        cast, kept = _cast(weight, bias, dtype), None
        for part in _parts(size, chunk):
            logp, lse[part] = _log_softmax(head.logits(hidden[part].to(dtype), *cast))
            logprobs[part] = logp.gather(-1, tokens[part, None])[:, 0]
            if entropy:
                entropies[part] = -logp.exp().mul_(logp).sum(-1)
            kept = logp if size <= chunk else None
        ctx.save_for_backward(hidden, weight, bias, tokens, lse, entropies, kept)
        ctx.head, ctx.dtype, ctx.chunk = head, dtype, chunk
        ctx.set_materialize_grads(False)
        return logprobs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        to_logprobs, to_entropies = gradients
        if to_logprobs is None and to_entropies is None:
            return (None,) * len(ctx.needs_input_grad)
        hidden, weight, bias, tokens, lse, entropies, kept = ctx.saved_tensors
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        to_hidden = torch.empty_like(hidden) if wants_hidden else None
        to_weight = torch.zeros_like(weight) if wants_weight else None
        to_bias = torch.zeros_like(bias) if wants_bias else None
        cast = _cast(weight, bias, ctx.dtype)
        for part in _parts(len(tokens), ctx.chunk):
            own = hidden[part].to(ctx.dtype)
            logp = kept if kept is not None else ctx.head.logits(own, *cast).sub_(lse[part, None])
            logits = logp + lse[part, None] if ctx.head.cap is not None else None
            to_logits = _to_logits(
                logp,
                tokens[part],
                None if to_logprobs is None else to_logprobs[part],
                None if to_entropies is None else to_entropies[part],
                entropies[part],
            )
            to_raw = ctx.head.to_raw(to_logits, logits).to(ctx.dtype)
            if to_hidden is not None:
                to_hidden[part] = to_raw @ cast[0]
            if to_weight is not None:
                _add_product(to_weight, to_raw.T, own)
            if to_bias is not None:
                to_bias += to_raw.sum(0)
        return to_hidden, to_weight, to_bias, None, None, None, None, None


def _cast(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    return weight.to(dtype), None if bias is None else bias.to(dtype)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right


def _parts(size: int, chunk: int) -> Iterator[slice]:
    return (slice(start, min(start + chunk, size)) for start in range(0, size, chunk))


def _log_softmax(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (log-probs [C, V] in the memory of `logits`, log of the sum of exponentials [C])."""
    lse = logits.logsumexp(-1)
    return logits.sub_(lse[:, None]), lse


def _to_logits(
    logp: Tensor, tokens: Tensor, to_logprobs: Tensor | None, to_entropies: Tensor | None, entropies: Tensor
) -> Tensor:
    """Computes dL/dlogits [C, V] from the gradients of log-probs and entropies [C].

    d log p_t/dz_j = [j = t] − p_j; dH/dz_j = −p_j (log p_j + H).
    """
    gradient = logp.exp()
    if to_entropies is None:
        assert to_logprobs is not None
        gradient.mul_(-to_logprobs[:, None])
    else:
        factor = (logp + entropies[:, None]).mul_(to_entropies[:, None])
        gradient.mul_(factor if to_logprobs is None else factor.add_(to_logprobs[:, None])).neg_()
    return gradient if to_logprobs is None else gradient.scatter_add_(-1, tokens[:, None], to_logprobs[:, None])
