"""The scorer against plain forward passes over whole sequences, for models whose caches differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from transformers import AutoModelForCausalLM, GemmaConfig, LlamaConfig, MistralConfig, PretrainedConfig, Qwen3Config

from ragen_envs.spaces import AnyText
from rllib_ragen.learner.thought_scorer import score_thoughts
from rllib_ragen.models.llm_module import LLMRLModule
from rllib_ragen.types import IntArray

SIZES: dict[str, Any] = {
    "vocab_size": 90,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
}
CONFIGS: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "qwen3": Qwen3Config(**SIZES),
    "gemma": GemmaConfig(**SIZES),
    "sliding_window": MistralConfig(**SIZES, sliding_window=6),
}


def make_module(folder: Path, config: PretrainedConfig, **settings: Any) -> LLMRLModule:
    torch.manual_seed(3)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    defaults = {"dtype": "float32", "temperature": 0.7, "lora": None, "value_head": False, "grouped_attention": True}
    defaults["seed"] = 0
    model_config = {"path": str(folder), **defaults, **settings}
    spec = RLModuleSpec(LLMRLModule, AnyText(10), AnyText(10), inference_only=False, model_config=model_config)
    module = spec.build()
    assert isinstance(module, LLMRLModule)
    return module


def sequences(count: int, low: int, high: int, seed: int) -> list[IntArray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(3, 90, rng.integers(low, high)).astype(np.int32) for _ in range(count)]


def plainly(module: LLMRLModule, prompt: IntArray, thought: IntArray) -> float:
    """The module's own log-probs of prompt and thought as one sequence, without a cache."""
    ids = torch.from_numpy(np.concatenate([prompt, thought]).astype(np.int64))[None]
    trained = torch.arange(ids.shape[1])[None] >= len(prompt)
    with torch.no_grad():
        return float(module.token_outputs(ids, trained, entropy=False)["logprobs"].double().sum())


@pytest.mark.parametrize("attention", [True, False], ids=["grouped", "sdpa"])
@pytest.mark.parametrize("name", CONFIGS)
def test_every_thought_after_every_prompt_is_scored_as_in_one_pass(name: str, attention: bool, tmp_path: Path) -> None:
    module = make_module(tmp_path, CONFIGS[name], grouped_attention=attention)
    prompts, thoughts = sequences(4, 1, 20, 0), sequences(6, 1, 12, 1)
    prompts[0] = prompts[0][:1]
    thoughts[1] = thoughts[0].copy()
    found = score_thoughts(module, prompts, thoughts, budget=64)
    wanted = np.array([[plainly(module, prompt, thought) for prompt in prompts] for thought in thoughts])
    assert found.shape == (6, 4)
    np.testing.assert_allclose(found, wanted, atol=2e-4)
    assert np.ptp(wanted, axis=1).min() > 0.05, "the prompts must matter, or the test says nothing"


def test_the_budget_changes_nothing(tmp_path: Path) -> None:
    module = make_module(tmp_path, CONFIGS["llama"])
    prompts, thoughts = sequences(3, 2, 20, 0), sequences(7, 1, 12, 1)
    tight, wide = (score_thoughts(module, prompts, thoughts, budget) for budget in (1, 100_000))
    np.testing.assert_allclose(tight, wide, atol=1e-4)


def test_scoring_touches_neither_weights_nor_gradients_nor_the_random_state(tmp_path: Path) -> None:
    module = make_module(tmp_path, CONFIGS["llama"])
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    torch.manual_seed(5)
    score_thoughts(module, sequences(2, 2, 9, 0), sequences(3, 1, 9, 1), budget=64)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_bfloat16_activations_are_those_of_the_learner(tmp_path: Path) -> None:
    module = make_module(tmp_path, CONFIGS["llama"], dtype="bfloat16")
    prompts, thoughts = sequences(2, 4, 9, 0), sequences(3, 2, 9, 1)
    found = score_thoughts(module, prompts, thoughts, budget=64)
    wanted = np.array([[plainly(module, prompt, thought) for prompt in prompts] for thought in thoughts])
    np.testing.assert_allclose(found, wanted, atol=0.5)
    assert not np.allclose(found, score_thoughts(make_module(tmp_path, CONFIGS["llama"]), prompts, thoughts, 64))
