"""Configs, rows and learners for the tests of StarPO."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray.tune.registry import register_env
from transformers import LlamaConfig, LlamaForCausalLM

from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.training_data import TokenTrainingData
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.types import FloatArray, TokenRow
from tests.rollout.families import tokenizer_of
from tests.starpo.digits import make_digits

register_env("digits", make_digits)
MODULE = "default_policy"
_CREDIT = inspect.signature(StarPOConfig.credit).parameters.keys() - {"self"}


def write_model(folder: Path) -> Path:
    """A random Llama of 80k parameters with the embedded model's kind of tokenizer, as a transformers folder."""
    tokenizer = tokenizer_of("embedded")
    torch.manual_seed(7)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            max_position_embeddings=512,
            tie_word_embeddings=True,
            initializer_range=0.1,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def digits_config(model: Path, *, env: dict[str, Any] | None = None, **training: Any) -> StarPOConfig:
    """A run on the digits environment: 4 groups of 4, short replies, one thread; settings of any of the setters."""
    config = StarPOConfig().environment("digits", env_config=env or {}).llm(model=str(model))
    config.rollout(engine="hf", max_reply_tokens=8, max_context_tokens=256)
    credit = {name: training.pop(name) for name in _CREDIT & training.keys()}
    config.training(**{"num_groups": 4, "group_size": 4, "lr": 1e-3, "torch_threads": 1, **training})
    return config.credit(**credit)


def metrics_of(result: dict[str, Any]) -> dict[str, float]:
    """The StarPO metrics of a result dict that are no times."""
    return {
        k: float(v)
        for k, v in result["starpo"].items()
        if not k.startswith("time_") and not k.endswith(("per_s", "idle_share", "_gib"))
    }


def random_rows(count: int, seed: int = 0, *, vocab: int = 200) -> list[TokenRow]:
    """Rows of 8 to 60 tokens with a prompt and one or two trained stretches."""
    rng = np.random.default_rng(seed)
    return [_random_row(rng, vocab) for _ in range(count)]


def _random_row(rng: np.random.Generator, vocab: int) -> TokenRow:
    length = int(rng.integers(8, 60))
    mask = np.zeros(length, np.float32)
    mask[length // 4 : length // 2] = mask[-length // 6 :] = 1

    def at_trained(values: Any) -> FloatArray:
        return (np.asarray(values) * mask).astype(np.float32)

    return TokenRow(
        token_ids=rng.integers(3, vocab, length).astype(np.int32),
        mask=mask,
        logprobs=at_trained(rng.normal(-5, 0.5, length)),
        advantages=at_trained(rng.normal()),
        returns=at_trained(rng.normal(size=length)),
        old_values=at_trained(rng.normal(size=length) * 0.1),
        weight=float(rng.uniform(0.5, 1.5)),
    )


def make_learner(config: StarPOConfig) -> StarPOLearner:
    """A learner in this process."""
    config.validate()
    learner: StarPOLearner = config.build_learner()
    return learner


def update(learner: StarPOLearner, rows: Sequence[TokenRow], **plan: Any) -> dict[str, float]:
    """One update; its metrics."""
    defaults: dict[str, Any] = {"num_minibatches": 1, "num_epochs": 1, "rng": np.random.default_rng(0)}
    reduced = learner.update(training_data=TokenTrainingData.plan(rows, **(defaults | plan)))
    return {name: float(stats.peek()) for name, stats in reduced[MODULE].items()}


def weights(learner: StarPOLearner) -> dict[str, torch.Tensor]:
    """Copies of all weights."""
    return {name: tensor.detach().clone() for name, tensor in learner.module[MODULE].state_dict().items()}


def largest_difference(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> float:
    """max |left − right| over all entries."""
    assert left.keys() == right.keys()
    return max((float((left[name] - right[name]).abs().max()) for name in left), default=0.0)
