"""Grouped-query attention by plain matmul, registered with transformers under ATTENTION.

On a CPU with few, short queries it beats scaled_dot_product_attention, and it never copies keys and values once per
query head. It is differentiable and follows SDPA's conventions, so one module can both sample and train with it:
`AutoModelForCausalLM.from_pretrained(path, attn_implementation=ATTENTION)`.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

ATTENTION = "ragen_grouped"
"""Name for `attn_implementation`, registered by importing this module."""
_BLOCK = 64
"""Queries of one block: chosen freely; smaller blocks make thinner matrices, larger ones compute more masked keys."""


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: object,
) -> tuple[Tensor, None]:
    """Computes softmax attention in which the query heads of a group share its keys without copies of them.

    Args:
        module: the attention layer; only its `training` flag is read.
        query: [B, H, Q, D].
        key, value: [B, KV, K, D] with KV dividing H.
        attention_mask: [B or 1, 1, Q, K], boolean (True: may attend) or additive; None means causal, aligned to the
            first key. Right-padded training batches need none: no real token attends to later padding.
        scaling: factor on the scores; default D^-0.5.
        dropout: probability, in training mode.

    Returns:
        ([B, Q, H, D], None).

    Raises:
        NotImplementedError: the model caps its scores or has attention sinks.
    """
    for name in ("softcap", "s_aux", "position_bias"):
        if kwargs.get(name) is not None:
            raise NotImplementedError(f"{ATTENTION} attention has no {name}: load this model with another one")
    query = query * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    dropout = dropout if module.training else 0.0
    if attention_mask is not None and query.shape[2] > 1 and not torch.is_grad_enabled():
        # An engine's prefill: with many queries SDPA's fused kernel takes half the time, without a backward pass.
        out = nn.functional.scaled_dot_product_attention(
            query, key, value, attention_mask, dropout, scale=1.0, enable_gqa=True
        )
        return out.transpose(1, 2), None
    if attention_mask is not None or query.shape[2] == 1:
        return _attend(query, key, value, attention_mask, dropout).transpose(1, 2), None
    return _causal(query, key, value, dropout).transpose(1, 2), None


def _causal(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> Tensor:
    """Computes causal attention by blocks of queries, without the keys after each block: nearly half of the work."""
    blocks, end = [], 0
    for block in query.split(_BLOCK, dim=2):
        start, end = end, end + block.shape[2]
        keys = min(end, key.shape[2])
        mask = _causal_mask(start, end, keys, query.dtype, query.device)
        blocks.append(_attend(block, key[:, :, :keys], value[:, :, :keys], mask, dropout))
    return torch.cat(blocks, dim=2) if len(blocks) > 1 else blocks[0]


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """Computes attention [B, H, Q, D] of scaled queries."""
    batch, heads, queries, size = query.shape
    groups, keys = key.shape[1], key.shape[2]
    grouped = query.reshape(batch, groups, heads // groups * queries, size)
    scores = torch.matmul(grouped, key.transpose(-1, -2)).view(batch, groups, heads // groups, queries, keys)
    if mask is not None:
        scores = _masked(scores, mask.unsqueeze(2))
    weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    if dropout:
        weights = nn.functional.dropout(weights, dropout)
    out = torch.matmul(weights.view(batch, groups, heads // groups * queries, keys), value)
    return out.reshape(batch, heads, queries, value.shape[-1])


def additive_mask(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns 0 where `allowed`, else the dtype's lowest finite number, so that a row without allowed keys stays
    finite.
    """
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(~allowed, torch.finfo(dtype).min)


def _masked(scores: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores + mask.to(scores.dtype)


@lru_cache(maxsize=256)
def _causal_mask(start: int, end: int, keys: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns the mask [1, 1, end - start, keys] for the queries at positions start … end - 1."""
    with torch.inference_mode(False):
        allowed = torch.ones(end - start, keys, dtype=torch.bool, device=device).tril(start)
        return additive_mask(allowed, dtype)[None, None]


AttentionInterface.register(ATTENTION, grouped_attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
