"""Adapters in the learner: what trains, what is computed, what samplers get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.models.llm_module import LLMRLModule, lm_weights
from rllib_ragen.models.lora import add_adapters, from_peft_name, is_adapter, merged_state, to_peft_name
from rllib_ragen.models.lora_settings import LoraSettings
from rllib_ragen.models.weight_arrays import from_array
from tests.starpo.build import (
    MODULE,
    digits_config,
    largest_difference,
    make_learner,
    random_rows,
    update,
    weights,
)

SETTINGS: dict[str, Any] = {"lora_rank": 4, "estimator": "gae", "lr": 1e-2}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "intermediate_size": 48, "num_key_value_heads": 1, "tie_word_embeddings": False},
    "qwen2 with biases": {"model_type": "qwen2", "intermediate_size": 48, "num_key_value_heads": 1},
    "gpt2, transposed layers": {"model_type": "gpt2"},
}


def trained(**settings: Any) -> Any:
    """A learner with adapters that have moved."""
    learner = make_learner(digits_config(settings.pop("model"), **SETTINGS | settings))
    for _ in range(3):
        update(learner, random_rows(6))
    return learner


def plain(learner: StarPOLearner, model: Path) -> PreTrainedModel:
    """A transformers model with the weights that samplers get."""
    llm: PreTrainedModel = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    state = lm_weights(learner.module[MODULE].get_state(inference_only=True))
    llm.load_state_dict({name: from_array(array) for name, array in state.items()}, strict=False)
    return llm


def test_only_adapters_and_critic_have_gradients_moments_and_other_values(model: Path) -> None:
    learner = make_learner(digits_config(model, **SETTINGS))
    before = weights(learner)
    update(learner, random_rows(6))
    after = weights(learner)
    for name, parameter in learner.module[MODULE].named_parameters():
        trains = is_adapter(name) or name.startswith("value_head.")
        assert (parameter.grad is not None) == trains == parameter.requires_grad, name
        if not trains:
            assert torch.equal(before[name], after[name]), name
    moved = [name for name in after if ".lora_B." in name]
    assert len(moved) == 2 * 7 and all(after[name].abs().max() > 0 for name in moved), "7 linear layers in each block"
    state = learner.get_state(not_components="metrics_logger")
    names = state["rl_module"][MODULE].keys()
    assert names == {n for n in after if is_adapter(n) or n.startswith("value_head.")}
    stepped = {key.split("/", 1)[1] for entry in state["optimizer"].values() for key in entry["state"]}
    assert stepped == names


def test_targets_and_alpha_are_what_the_config_says(model: Path) -> None:
    learner = make_learner(digits_config(model, lora_rank=2, lora_alpha=6.0, lora_targets=["q_proj", "1.mlp.up_proj"]))
    state = learner.module[MODULE].state_dict()
    layers = {name.split(".lora_")[0].removeprefix("llm.model.layers.") for name in state if is_adapter(name)}
    assert layers == {"0.self_attn.q_proj", "1.self_attn.q_proj", "1.mlp.up_proj"}
    assert {layer.scaling["default"] for layer in lora_layers(learner)} == {3.0}
    default = make_learner(digits_config(model, lora_rank=5))
    assert {layer.scaling["default"] for layer in lora_layers(default)} == {2.0}


def lora_layers(learner: StarPOLearner) -> list[Any]:
    return [m for m in learner.module[MODULE].modules() if hasattr(m, "lora_A")]


def test_samplers_get_a_plain_model_by_the_hand_computed_sum_and_the_live_one_stays(model: Path) -> None:
    learner = trained(model=model, lora_alpha=12.0)
    module: LLMRLModule = learner.module[MODULE]
    before = weights(learner)
    state = {name: from_array(array) for name, array in lm_weights(module.get_state(inference_only=True)).items()}
    assert largest_difference(before, weights(learner)) == 0.0
    own = AutoModelForCausalLM.from_pretrained(model).state_dict()
    assert set(state) == set(own) - {"lm_head.weight"}, "the head is tied to the embedding"
    for name, tensor in state.items():
        layer = f"llm.{name.removesuffix('.weight')}"
        if f"{layer}.base_layer.weight" not in before:
            assert torch.equal(tensor, own[name]), name
            continue
        a, b = (before[f"{layer}.lora_{part}.default.weight"].double() for part in "AB")
        wanted = own[name].double() + 12.0 / 4 * b @ a
        assert (tensor - wanted).abs().max() < 1e-6
        assert (tensor - own[name]).abs().max() > 1e-3


def test_S1_the_merged_model_has_the_learners_log_probs(model: Path) -> None:
    learner = trained(model=model)
    merged, module = plain(learner, model), learner.module[MODULE]
    for row in random_rows(6, seed=1):
        ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
        where = np.flatnonzero(row.mask)
        mask = torch.from_numpy(row.mask > 0)[None]
        with torch.no_grad():
            logits = merged(ids).logits[0].log_softmax(-1)
            outputs = module.token_outputs(ids, mask)
        assert (outputs["logprobs"] - logits[where - 1, row.token_ids[where]]).abs().max() < 1e-4


@pytest.mark.parametrize("name", FAMILIES)
def test_other_families_merge_exactly_too(name: str) -> None:
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "n_positions": 32}
    config = AutoConfig.for_model(**sizes | FAMILIES[name])
    torch.manual_seed(0)
    llm = AutoModelForCausalLM.from_config(config).eval()
    twin = AutoModelForCausalLM.from_config(config).eval()
    twin.load_state_dict(llm.state_dict())
    ids = torch.arange(10)[None]
    before = llm(ids).logits
    add_adapters(llm, LoraSettings(rank=3, alpha=5.0, targets=None))
    assert not any(hasattr(module, "lora_A") for module in [llm.get_output_embeddings()])
    assert torch.equal(llm(ids).logits, before), "an adapter starts at 0"
    with torch.no_grad():
        for key, parameter in llm.named_parameters():
            if is_adapter(key):
                nn.init.normal_(parameter, std=0.1)
    with torch.no_grad():
        wanted = llm(ids).logits
        twin.load_state_dict(merged_state(llm))
        assert (wanted - before).abs().max() > 1e-2
        assert (twin(ids).logits - wanted).abs().max() < 1e-5


def test_gradient_checkpointing_changes_nothing(model: Path) -> None:
    found = []
    for recompute in (False, True):
        learner = make_learner(digits_config(model, **SETTINGS, gradient_checkpointing=recompute))
        update(learner, random_rows(6))
        found.append({n: p.grad for n, p in learner.module[MODULE].named_parameters() if p.grad is not None})
    assert largest_difference(found[0], found[1]) < 1e-6


def test_the_reference_is_the_base_shares_its_memory_and_stays(model: Path) -> None:
    learner = make_learner(digits_config(model, **SETTINGS, kl_coeff=0.1))
    assert update(learner, random_rows(4))["kl"] == 0.0
    assert update(learner, random_rows(4))["kl"] > 0.0
    module, reference = learner.module[MODULE], learner.references[MODULE]
    own = {name: p.data_ptr() for name, p in module.llm.named_parameters()}
    for name, parameter in reference.llm.named_parameters():
        assert (parameter.data_ptr() == own[name]) != is_adapter(name), name
        assert not parameter.requires_grad
    (row,) = random_rows(1)
    ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
    base = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        assert (reference.llm(ids).logits - base(ids).logits).abs().max() < 1e-5
        assert (module.llm(ids).logits - base(ids).logits).abs().max() > 1e-3


def test_the_kl_term_is_the_hand_computed_one_and_pulls_back(model: Path) -> None:
    settings: dict[str, Any] = {"lora_rank": 4, "lr": 1e-2, "entropy_coeff": 0.0, "weight_decay": 0.0}
    learner = make_learner(digits_config(model, **settings, kl_coeff=1.0, kl_estimator="k2"))
    for _ in range(5):
        update(learner, random_rows(4))
    (row,) = random_rows(1)
    where = np.flatnonzero(row.mask)
    ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]

    def logprobs(llm: PreTrainedModel) -> Tensor:
        with torch.no_grad():
            return torch.as_tensor(llm(ids).logits[0].log_softmax(-1)[where - 1, row.token_ids[where]])

    d = logprobs(learner.module[MODULE].llm) - logprobs(AutoModelForCausalLM.from_pretrained(model))
    quiet = [replace(row, advantages=np.zeros_like(row.advantages))]
    away = [update(learner, quiet)["kl"] for _ in range(20)]
    assert away[0] == pytest.approx(float((d**2 / 2).mean()), rel=1e-3)
    assert away[-1] < 0.5 * away[0]


def test_bfloat16_trains_float32_adapters_and_samplers_get_bfloat16(model: Path) -> None:
    learner = make_learner(digits_config(model, **SETTINGS).llm(dtype="bfloat16"))
    update(learner, random_rows(6))
    module = learner.module[MODULE]
    assert {p.dtype for p in module.parameters()} == {torch.float32}
    assert {tensor.dtype for tensor in module.tensors(inference_only=True).values()} == {torch.bfloat16}
    assert all(p.abs().max() > 0 for name, p in module.named_parameters() if ".lora_B." in name)


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens", "k_projection"])
def test_a_target_that_is_no_linear_layer_or_the_head_is_refused(model: Path, target: str) -> None:
    llm = AutoModelForCausalLM.from_pretrained(model)
    with pytest.raises(ValueError, match=rf"learner\.lora_targets: .*'{target}'"):
        add_adapters(llm, LoraSettings(rank=2, alpha=4.0, targets=["q_proj", target]))
    assert not any(is_adapter(name) for name in llm.state_dict()), "nothing has been changed"


def test_names_in_a_peft_folder_lead_back(model: Path) -> None:
    name = "model.layers.0.self_attn.q_proj.lora_A.default.weight"
    assert to_peft_name(name) == "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    assert from_peft_name(to_peft_name(name)) == name
