"""What an update keeps: chunks of logits, recomputed layers, float32 masters; the same result either way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel
from transformers.modeling_layers import GradientCheckpointingLayer

from benchmarks.learner_peak_memory import PeakMemory
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.models import token_scores
from rllib_ragen.models.gradient_checkpointing import layers_to_recompute, recomputed_layers
from tests.starpo.build import (
    MODULE,
    digits_config,
    largest_difference,
    make_learner,
    metrics_of,
    random_rows,
    update,
    weights,
)

SETTINGS: dict[str, Any] = {"estimator": "gae", "adam_eps": 1e-3, "grad_clip": 100.0}


def fresh(model: Path, **settings: Any) -> StarPOLearner:
    return make_learner(digits_config(model, **SETTINGS | settings))


def gradients(learner: StarPOLearner) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in learner.module[MODULE].named_parameters() if p.grad is not None}


def widened(model: Path, folder: Path, vocabulary: int) -> Path:
    """The model folder with a larger vocabulary."""
    for path in model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    llm = AutoModelForCausalLM.from_pretrained(model)
    llm.resize_token_embeddings(vocabulary)
    llm.save_pretrained(folder)
    return folder


def test_L6_an_update_never_holds_its_tokens_times_the_vocabulary(
    model: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    vocabulary, rows = 8000, random_rows(40)
    folder = widened(model, tmp_path, vocabulary)
    naive = 4 * vocabulary * sum(row.num_trained_tokens for row in rows)
    whole, chunked = fresh(folder, kl_coeff=0.1), fresh(folder, kl_coeff=0.1)
    with PeakMemory() as whole_memory:
        update(whole, rows)
    monkeypatch.setattr(token_scores, "CHUNK_ELEMENTS", 30 * vocabulary)
    with PeakMemory() as memory:
        update(chunked, rows)
    assert memory.largest < naive / 8 < naive <= whole_memory.largest
    assert memory.peak < whole_memory.peak - 2 * naive
    assert largest_difference(gradients(whole), gradients(chunked)) < 1e-6
    assert largest_difference(weights(whole), weights(chunked)) < 1e-6


def test_recomputed_layers_give_the_same_update_and_keep_less(model: Path) -> None:
    rows = random_rows(12)
    peaks, found = [], []
    for recompute in (False, True):
        learner = fresh(model, gradient_checkpointing=recompute)
        update(learner, rows[:1])  # moments and buffers that stay
        with PeakMemory() as memory:
            update(learner, rows)
        peaks.append(memory.peak)
        found.append((gradients(learner), weights(learner)))
    assert largest_difference(found[0][0], found[1][0]) < 1e-7
    assert largest_difference(found[0][1], found[1][1]) < 1e-7
    assert peaks[1] < 0.75 * peaks[0]


def test_layers_are_recomputed_in_a_learners_pass_only(model: Path) -> None:
    llm = fresh(model).module[MODULE].llm
    layers = layers_to_recompute(llm)
    assert len(layers) == 2 and all(isinstance(layer, GradientCheckpointingLayer) for layer in layers)
    calls: list[int] = []
    for k, layer in enumerate(layers):
        layer.get_submodule("mlp").register_forward_pre_hook(lambda *_, k=k: calls.append(k))
    ids = torch.arange(3, 20)[None]
    with recomputed_layers(llm):
        llm(ids).logits.sum().backward()
    assert sorted(calls) == [0, 0, 1, 1]
    calls.clear()
    llm(ids).logits.sum().backward()
    assert calls == [0, 1]


@pytest.mark.usefixtures("local_ray")
def test_a_sampler_that_shares_the_module_samples_as_before(model: Path) -> None:
    found = []
    for recompute in (False, True):
        algo = digits_config(model, gradient_checkpointing=recompute).build_algo()
        assert algo.config.shares_module
        found.append([metrics_of(algo.train()) for _ in range(2)])
        algo.stop()
    for one, other in zip(*found, strict=True):
        assert one == pytest.approx(other, rel=1e-4, nan_ok=True)


def test_a_model_whose_layers_cannot_be_recomputed_is_refused() -> None:
    llm = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=1, n_positions=16))
    assert len(layers_to_recompute(llm)) == 1
    llm.transformer.h = torch.nn.ModuleList([torch.nn.Linear(8, 8)])
    with pytest.raises(ValueError, match=r"learner\.gradient_checkpointing: GPT2LMHeadModel has no layers"):
        layers_to_recompute(llm)


@pytest.mark.parametrize("recompute", [False, True])
def test_bfloat16_learns_on_float32_masters(model: Path, recompute: bool) -> None:
    """Steps far below bfloat16's resolution of a weight add up in the masters; the gradient is float32's, nearly."""
    rows = random_rows(6)
    config = digits_config(model, **SETTINGS, lr=1e-6, gradient_checkpointing=recompute).llm(dtype="bfloat16")
    half, full = make_learner(config), fresh(model, lr=1e-6)
    for learner in (half, full):
        update(learner, rows)
    assert {p.dtype for p in half.module[MODULE].parameters()} == {torch.float32}
    assert {g.dtype for g in gradients(half).values()} == {torch.float32}
    norms = [np.sqrt(sum(float((g**2).sum()) for g in gradients(learner).values())) for learner in (half, full)]
    assert norms[0] == pytest.approx(norms[1], rel=0.05)
    before = weights(half)
    for _ in range(3):
        update(half, rows)
    moved = {n: float((t - before[n]).abs().max()) for n, t in weights(half).items() if n.startswith("llm.")}
    assert 0 < max(moved.values()) < 1e-5
