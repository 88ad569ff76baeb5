"""Models, prompts and reference log-probs for the rollout tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from rllib_ragen.rollout.engines.base import Engine, EngineFailure
from rllib_ragen.types import Sampled, Sampling

VOCAB = 400


def make_model(seed: int = 0, **settings: Any) -> LlamaForCausalLM:
    """A random Llama; default: 2 layers, 4 query heads on 2 KV heads of size 32, tied embeddings, peaked outputs."""
    config: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": 128,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "initializer_range": 0.08,
    }
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**(config | settings)))
    model.eval()
    return model


def plain_copy(model: PreTrainedModel) -> PreTrainedModel:
    """The same weights under transformers' own SDPA attention, apart from any engine."""
    twin = type(model)(model.config.__class__(**model.config.to_dict()))
    twin.load_state_dict(model.state_dict())
    twin.set_attn_implementation("sdpa")
    twin.eval()
    return twin


def prompts(count: int, seed: int = 0, low: int = 5, high: int = 60) -> list[list[int]]:
    """Random prompts of random lengths."""
    rng = np.random.default_rng(seed)
    return [rng.integers(10, VOCAB, rng.integers(low, high)).tolist() for _ in range(count)]


def logits_of(model: PreTrainedModel, ids: Sequence[int]) -> torch.Tensor:
    """[len(ids), V] of one plain forward pass without gradients."""
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([ids])).logits[0]
    return logits


def generate(model: PreTrainedModel, ids: torch.Tensor, **options: Any) -> torch.Tensor:
    """[B, T] transformers' own greedy generation, prompts included."""
    tokens: Any = model.generate(ids, do_sample=False, pad_token_id=0, **options)  # type: ignore[operator]
    assert isinstance(tokens, torch.Tensor)
    return tokens


def reply_logprobs(
    model: PreTrainedModel, prompt: Sequence[int], reply: Sequence[int], temperature: float = 1.0
) -> torch.Tensor:
    """[len(reply)] log-probs of a reply by one plain forward pass over prompt and reply."""
    logits = logits_of(model, [*prompt, *reply])[len(prompt) - 1 : -1]
    chosen: torch.Tensor = (logits / temperature).log_softmax(-1).gather(1, torch.tensor(reply)[:, None])[:, 0]
    return chosen


def worst_gap(model: PreTrainedModel, prompt: Sequence[int], sampled: Sampled, temperature: float = 1.0) -> float:
    """Largest difference between the sampler's log-probs and the plain forward pass."""
    wanted = reply_logprobs(model, prompt, sampled.token_ids, temperature)
    return float((wanted - torch.tensor(sampled.logprobs)).abs().max())


def run_all(engine: Engine, requests: Mapping[int, tuple[Sequence[int], Sampling]]) -> dict[int, Sampled]:
    """Submits all requests at once and returns all replies; none may fail."""
    results = run_raw(engine, requests)
    for result in results.values():
        assert isinstance(result, Sampled), result
    return {key: result for key, result in results.items() if isinstance(result, Sampled)}


def run_raw(
    engine: Engine, requests: Mapping[int, tuple[Sequence[int], Sampling]]
) -> dict[int, Sampled | EngineFailure]:
    """As run_all, failures included."""
    for key, (prompt, sampling) in requests.items():
        engine.add(key, prompt, sampling)
    results: dict[int, Sampled | EngineFailure] = {}
    while finished := engine.poll():
        results.update(finished)
    assert set(results) == set(requests)
    return results


def forget_all(engine: Engine, keys: Iterable[int]) -> None:
    """Ends the episodes."""
    for key in keys:
        engine.forget(key)
