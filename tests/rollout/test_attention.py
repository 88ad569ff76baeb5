"""The project's attention equals transformers' own, forwards and backwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import Gemma2Config, Gemma2ForCausalLM, MistralConfig, MistralForCausalLM

from rllib_ragen.models.attention import ATTENTION, grouped_attention
from tests.rollout.build import VOCAB, generate, make_model, plain_copy

SMALL: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_logits_and_gradients_equal_sdpa_on_right_padded_batches(kv_heads: int) -> None:
    model = make_model(num_key_value_heads=kv_heads)
    twin = plain_copy(model)
    model.set_attn_implementation(ATTENTION)
    ids = torch.randint(VOCAB, (3, 17), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([17, 9, 4])
    real = torch.arange(17) < lengths[:, None]
    for row, length in enumerate(lengths.tolist()):
        ids[row, length:] = 0
    logits = model(ids).logits[real]
    alone = torch.cat([twin(ids[row : row + 1, :length]).logits[0] for row, length in enumerate(lengths.tolist())])
    assert torch.allclose(logits, alone, atol=2e-5)
    target = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
    (logits * target).sum().backward()
    (alone * target).sum().backward()
    for (name, mine), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert mine.grad is not None and theirs.grad is not None
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-3, rtol=1e-4), name


def test_left_padded_generate_and_sliding_windows_are_masked_as_transformers_masks_them() -> None:
    torch.manual_seed(0)
    config = MistralConfig(
        **SMALL,
        sliding_window=6,
        initializer_range=0.1,
    )
    model = MistralForCausalLM(config)
    model.eval()
    twin = plain_copy(model)
    model.set_attn_implementation(ATTENTION)
    ids = torch.randint(VOCAB, (2, 15))
    padding = torch.ones(2, 15, dtype=torch.int64)
    padding[0, :5] = 0
    theirs = twin(ids, attention_mask=padding).logits[padding.bool()]
    assert torch.allclose(model(ids, attention_mask=padding).logits[padding.bool()], theirs, atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(model(ids, attention_mask=padding).logits[padding.bool()], theirs, atol=1e-5)
    options = {"attention_mask": padding, "max_new_tokens": 8}
    assert torch.equal(generate(model, ids, **options), generate(twin, ids, **options))


def test_dropout_acts_in_training_only() -> None:
    query, key = torch.randn(1, 4, 8, 16), torch.randn(1, 2, 8, 16)
    layer = nn.Module().train()
    plain, _ = grouped_attention(layer, query, key, key, None)
    dropped, _ = grouped_attention(layer, query, key, key, None, dropout=0.5)
    assert not torch.allclose(plain, dropped)
    calm, _ = grouped_attention(layer.eval(), query, key, key, None, dropout=0.5)
    assert torch.equal(plain, calm)


def test_models_with_capped_scores_are_refused() -> None:
    config = Gemma2Config(
        **SMALL,
        head_dim=16,
    )
    model = Gemma2ForCausalLM(config).eval()
    model.set_attn_implementation(ATTENTION)
    with pytest.raises(NotImplementedError, match="softcap"):
        model(torch.ones(1, 4, dtype=torch.int64))
