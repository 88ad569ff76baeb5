"""Chunked log-probs: equal to the plain ones, forward and backward, without ever holding [tokens × vocabulary]."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, GraniteConfig, LlamaConfig, PhiConfig, PreTrainedModel

from benchmarks.learner_peak_memory import PeakMemory
from rllib_ragen.models.logit_head import LogitHead, check_head
from rllib_ragen.models.token_scores import token_scores

HEADS = {
    "plain": LogitHead(),
    "temperature": LogitHead(temperature=0.7),
    "factor": LogitHead(factor=0.25, temperature=1.3),
    "cap": LogitHead(factor=0.5, cap=2.0, temperature=0.8),
}


def plain(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, tokens: torch.Tensor, head: LogitHead
) -> tuple[torch.Tensor, torch.Tensor]:
    """(log-probs, entropies) as one would write them down."""
    logits = torch.nn.functional.linear(hidden, weight, bias) * head.factor
    if head.cap is not None:
        logits = head.cap * torch.tanh(logits / head.cap)
    logp = (logits / head.temperature).log_softmax(-1)
    return logp.gather(-1, tokens[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def random_case(dtype: torch.dtype = torch.float64, size: int = 11, vocabulary: int = 13) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    hidden, weight, bias = (torch.randn(*shape, dtype=dtype) for shape in ((size, 5), (vocabulary, 5), (vocabulary,)))
    return hidden.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), torch.randint(vocabulary, (size,))


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("chunk", [1, 3, 11, 100])
def test_values_and_gradients_are_the_plain_ones_whatever_the_chunk(name: str, chunk: int) -> None:
    hidden, weight, bias, tokens = random_case()
    head = HEADS[name]
    found = token_scores(hidden, weight, bias, tokens, head, chunk_elements=chunk * len(weight))
    expected = plain(hidden, weight, bias, tokens, head)
    torch.testing.assert_close(tuple(found), expected)
    torch.manual_seed(1)
    factors = torch.randn(2, len(tokens), dtype=torch.float64)
    gradients = [
        torch.autograd.grad((factors[0] * logprobs + factors[1] * entropy).sum(), (hidden, weight, bias))
        for logprobs, entropy in (found, expected)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("name", HEADS)
def test_gradients_agree_with_finite_differences(name: str) -> None:
    hidden, weight, bias, tokens = random_case(size=4, vocabulary=5)

    def scores(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> Any:
        return tuple(token_scores(hidden, weight, bias, tokens, HEADS[name], chunk_elements=15))

    torch.autograd.gradcheck(scores, (hidden, weight, bias))


def test_only_what_is_wanted_has_a_gradient() -> None:
    hidden, weight, _, tokens = random_case()
    scores = token_scores(hidden, weight.detach(), None, tokens, LogitHead(), entropy=False)
    assert scores.entropy.shape == (0,)
    scores.logprobs.sum().backward()
    expected = torch.autograd.grad(plain(hidden, weight, None, tokens, LogitHead())[0].sum(), hidden)[0]
    assert hidden.grad is not None
    torch.testing.assert_close(hidden.grad, expected)
    entropy = token_scores(hidden, weight, None, tokens, LogitHead()).entropy
    found = torch.autograd.grad(entropy.sum(), weight)[0]
    torch.testing.assert_close(
        found, torch.autograd.grad(plain(hidden, weight, None, tokens, LogitHead())[1].sum(), weight)[0]
    )


def test_no_tokens_give_no_scores_and_zero_gradients() -> None:
    hidden, weight, bias, tokens = random_case()
    scores = token_scores(hidden[:0], weight, bias, tokens[:0], LogitHead())
    scores.logprobs.sum().backward()
    assert weight.grad is not None and not weight.grad.any()


def test_bfloat16_products_sum_in_float32_and_leave_float32_gradients() -> None:
    hidden, weight, _, tokens = random_case(torch.float32, size=64, vocabulary=300)
    found = token_scores(hidden, weight, None, tokens, LogitHead(), dtype=torch.bfloat16, chunk_elements=10 * 300)
    expected = plain(hidden, weight, None, tokens, LogitHead())
    assert found.logprobs.dtype == torch.float32
    torch.testing.assert_close(tuple(found), expected, atol=0.1, rtol=0.02)
    one, other = (torch.autograd.grad(scores[0].sum(), (hidden, weight)) for scores in (found, expected))
    for mine, theirs in zip(one, other, strict=True):
        assert mine.dtype == torch.float32
        assert (mine - theirs).norm() < 0.02 * theirs.norm()


def test_L6_memory_does_not_grow_with_tokens_times_vocabulary() -> None:
    size, vocabulary, width, chunk = 600, 151_936, 4, 1 << 21
    torch.manual_seed(0)
    weight = torch.randn(vocabulary, width, requires_grad=True)
    hidden = torch.randn(size, width, requires_grad=True)
    tokens = torch.randint(vocabulary, (size,))
    with PeakMemory() as memory:
        scores = token_scores(hidden, weight, None, tokens, LogitHead(), chunk_elements=chunk)
        between = memory.now
        (scores.logprobs + 0.1 * scores.entropy).sum().backward()
    assert memory.largest <= 4 * max(chunk, weight.numel())
    assert memory.peak <= 4 * (4 * chunk + weight.numel())
    assert memory.peak < 4 * size * vocabulary / 7, "the logits alone, naively"
    assert between <= 4 * 8 * size, "nothing of the vocabulary's size waits for the backward pass"


def small(config: Any) -> PreTrainedModel:
    """A random model of some family."""
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config).eval()
    return model


SIZES: dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "initializer_range": 0.5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES: dict[str, tuple[Any, LogitHead]] = {
    "llama": (LlamaConfig(**SIZES), LogitHead()),
    "phi, with a bias": (PhiConfig(**SIZES), LogitHead()),
    "gemma2, soft-capped": (Gemma2Config(**SIZES, head_dim=16, final_logit_softcapping=3.0), LogitHead(cap=3.0)),
    "granite, scaled": (GraniteConfig(**SIZES, logits_scaling=4.0), LogitHead(factor=0.25)),
}


def through_the_layers(model: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor]:
    """(what the output layer sees, the model's logits) of a few tokens."""
    seen: list[torch.Tensor] = []
    layer = model.get_output_embeddings()
    handle = layer.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        logits = model(torch.tensor([[3, 4, 5, 6]])).logits
    handle.remove()
    return seen[0], logits


@pytest.mark.parametrize("name", FAMILIES)
def test_the_heads_of_families_are_known(name: str) -> None:
    config, head = FAMILIES[name]
    model = small(config)
    assert LogitHead.of(model, 1.0) == head
    check_head(model, *through_the_layers(model))


def test_an_unknown_head_is_refused_with_a_reason() -> None:
    model = small(LlamaConfig(**SIZES))
    hidden, logits = through_the_layers(model)
    with pytest.raises(ValueError, match=r"model\.path: LlamaForCausalLM makes its logits in a way"):
        check_head(model, hidden, 1.5 * logits)
