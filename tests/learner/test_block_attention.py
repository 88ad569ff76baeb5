"""Attention in blocks of queries equals transformers' own, also when sequences span several blocks."""

from __future__ import annotations

import pytest
import torch

from rllib_ragen.models.attention import ATTENTION
from tests.rollout.build import VOCAB, make_model, plain_copy


@pytest.mark.parametrize("length", [64, 65, 200])
def test_logits_and_gradients_equal_sdpa_across_blocks(length: int) -> None:
    model = make_model(num_key_value_heads=1)
    twin = plain_copy(model)
    model.set_attn_implementation(ATTENTION)
    ids = torch.randint(VOCAB, (2, length), generator=torch.Generator().manual_seed(0))
    target = torch.randn(2, length, VOCAB, generator=torch.Generator().manual_seed(1))
    mine, theirs = model(ids).logits, twin(ids).logits
    assert torch.allclose(mine, theirs, atol=2e-5)
    (mine * target).sum().backward()
    (theirs * target).sum().backward()
    for (name, one), other in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None
        assert torch.allclose(one.grad, other.grad, atol=1e-3 * float(other.grad.abs().max())), name
