"""A run that trains adapters: sampling, checkpoints, exports; bad settings in one sentence."""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.faults.interrupt import Interrupt
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.lora import is_adapter
from rllib_ragen.run.console import Display
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.run.loop import Surroundings, run_training
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.starpo.checks.lora import check_lora
from tests.starpo.build import MODULE, digits_config, largest_difference, metrics_of, weights
from tests.starpo.test_runners import runner_weights

SETTINGS: dict[str, Any] = {"lora_rank": 4, "lr": 1e-2, "group_size": 2, "num_minibatches": 2}
TINY = model_folder("tiny")


@pytest.fixture(scope="module")
def algo(model: Path, local_ray: None) -> Iterator[StarPO]:
    """A run of three iterations that samples with the learner's own module."""
    algo = digits_config(model, **SETTINGS).build_algo()
    for _ in range(3):
        algo.train()
    yield algo
    algo.stop()


@pytest.mark.usefixtures("local_ray")
def test_S1_the_learners_own_module_samples_with_its_adapters(model: Path) -> None:
    algo = digits_config(model, **SETTINGS | {"num_minibatches": 1}).build_algo()
    assert algo.env_runner.module is algo.learner_group._learner.module[MODULE]
    before = weights(algo.learner_group._learner)
    results = [algo.train()["starpo"] for _ in range(4)]
    assert max(result["logprob_gap_max"] for result in results) < 1e-4
    after = weights(algo.learner_group._learner)
    changed = {name for name in after if not torch.equal(before[name], after[name])}
    assert changed == {name for name in after if is_adapter(name)}
    algo.stop()


@pytest.mark.usefixtures("local_ray")
def test_it_learns_to_say_digits(model: Path) -> None:
    algo = digits_config(model, lora_rank=8, lr=2e-2, num_groups=8).build_algo()
    returns = [algo.train()["starpo"]["return_mean"] for _ in range(16)]
    assert np.mean(returns[-4:]) > np.mean(returns[:4]) + 0.3
    algo.stop()


@pytest.mark.usefixtures("local_ray")
def test_S1_remote_runners_sample_with_merged_weights(model: Path) -> None:
    config = digits_config(model, **SETTINGS | {"num_minibatches": 1}).env_runners(num_env_runners=1)
    algo = config.build_algo()
    for _ in range(4):
        assert algo.train()["starpo"]["logprob_gap_max"] < 1e-4
    merged = algo.learner_group._learner.module[MODULE].tensors(inference_only=True)
    (version, found), *_ = runner_weights(algo)
    assert version == 4
    own = {name.removeprefix("llm."): tensor for name, tensor in merged.items()}
    assert largest_difference({name: found[name] for name in own}, own) == 0.0
    base = AutoModelForCausalLM.from_pretrained(model).state_dict()
    assert largest_difference(found, base) > 1e-2
    algo.stop()


@pytest.mark.vllm
@pytest.mark.usefixtures("local_ray")
def test_S1_adapters_alone_travel_and_are_merged_where_vllm_is(model: Path) -> None:
    config = (
        digits_config(model, **SETTINGS | {"num_minibatches": 1})
        .env_runners(num_env_runners=1)
        .rollout(engine="vllm", max_concurrent=16)
        .vllm(weight_transfer="adapters")
    )
    algo = config.build_algo()
    for _ in range(3):
        assert algo.train()["starpo"]["logprob_gap_max"] < 1e-4
    assert algo._rollouts.snapshot is not None
    sent = ray.get(algo._rollouts.snapshot.weights[MODULE])
    assert sent and all(is_adapter(name) for name in sent)
    algo.stop()


@pytest.mark.usefixtures("local_ray")
def test_bfloat16_samplers_in_the_driver_get_merged_weights(model: Path) -> None:
    algo = digits_config(model, **SETTINGS).llm(dtype="bfloat16").build_algo()
    for _ in range(2):
        assert algo.train()["starpo"]["logprob_gap_max"] < 0.3
    merged = algo.learner_group._learner.module[MODULE].tensors(inference_only=True)
    twin = algo.env_runner.module.llm.state_dict()
    assert all(torch.equal(tensor, twin[name.removeprefix("llm.")]) for name, tensor in merged.items())
    algo.stop()


@pytest.mark.usefixtures("local_ray")
def test_R1_a_resumed_run_goes_on_as_if_it_had_never_stopped_to_the_last_bit(model: Path, tmp_path: Path) -> None:
    settings = SETTINGS | {"estimator": "gae", "kl_coeff": 0.05}
    whole = digits_config(model, **settings).build_algo()
    expected = [metrics_of(whole.train()) for _ in range(4)]
    expected_weights = weights(whole.learner_group._learner)
    whole.stop()
    first = digits_config(model, **settings).build_algo()
    before = [metrics_of(first.train()) for _ in range(2)]
    first.save(str(tmp_path))
    first.stop()
    second = StarPO.from_checkpoint(str(tmp_path), config=digits_config(model, **settings))
    after = [metrics_of(second.train()) for _ in range(2)]
    assert before + after == expected
    assert largest_difference(weights(second.learner_group._learner), expected_weights) == 0.0
    second.stop()


def test_a_checkpoint_holds_adapters_and_moments_only(algo: StarPO, tmp_path: Path) -> None:
    algo.save_checkpoint(str(tmp_path))
    files = {path.name: path for path in tmp_path.rglob("*.safetensors")}
    assert files.keys() == {"adapter_model.safetensors", "optimizer.safetensors", "value_head.safetensors"}
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} <= {".json", ".safetensors"}
    learner = algo.learner_group._learner
    own = {n: p for n, p in learner.module[MODULE].named_parameters() if p.requires_grad}
    saved = load_file(files["adapter_model.safetensors"])
    assert sum(t.numel() for t in saved.values()) == sum(p.numel() for p in own.values())
    moments = load_file(files["optimizer.safetensors"])
    assert {name.split("/", 2)[2] for name in moments} == set(own)


@pytest.fixture
def saved(algo: StarPO, tmp_path: Path) -> Path:
    """A checkpoint of adapters."""
    algo.save_checkpoint(str(tmp_path / "saved"))
    return tmp_path / "saved"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lora_rank": 3}, "learner.lora_rank=3, but the checkpoint's adapters have 4"),
        ({"lora_alpha": 5.0}, "learner.lora_alpha=5.0, but the checkpoint's adapters have 8.0"),
        ({"lora_rank": None}, "learner.lora_rank=null, but the checkpoint holds adapters"),
    ],
)
def test_adapters_of_another_shape_are_refused(saved: Path, model: Path, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        StarPO.from_checkpoint(str(saved), config=digits_config(model, **SETTINGS | settings))


def test_adapters_of_other_layers_are_refused_and_change_nothing(saved: Path, model: Path) -> None:
    algo = digits_config(model, **SETTINGS, lora_targets=["q_proj"]).build_algo()
    before = weights(algo.learner_group._learner)
    with pytest.raises(ValueError, match=r"differ in the weight .*down_proj\.lora_A"):
        algo.load_checkpoint(str(saved))
    assert largest_difference(before, weights(algo.learner_group._learner)) == 0.0
    algo.stop()


def test_a_base_that_has_moved_is_taken_and_another_one_refused(saved: Path, model: Path, tmp_path: Path) -> None:
    moved, other = tmp_path / "moved", tmp_path / "other"
    for folder in (moved, other):
        shutil.copytree(model, folder)
    tensors = load_file(other / "model.safetensors")
    tensors["model.norm.weight"] += 1e-3
    save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    algo = StarPO.from_checkpoint(str(saved), config=digits_config(moved, **SETTINGS))
    assert algo.iteration == 3
    algo.stop()
    with pytest.raises(ValueError, match=r"model\.path: the checkpoint's adapters are of the model that was in"):
        StarPO.from_checkpoint(str(saved), config=digits_config(other, **SETTINGS))


def test_a_checkpoint_of_all_weights_is_refused(model: Path, tmp_path: Path, local_ray: None) -> None:
    full = digits_config(model).build_algo()
    full.save_checkpoint(str(tmp_path))
    with pytest.raises(ValueError, match=r"learner\.lora_rank=null: there is no adapter to export"):
        full.export_adapter(tmp_path / "adapter")
    full.stop()
    with pytest.raises(ValueError, match="the checkpoint holds all weights and no adapters"):
        StarPO.from_checkpoint(str(tmp_path), config=digits_config(model, **SETTINGS))


def test_the_exported_model_and_the_exported_adapter_are_the_policy(algo: StarPO, model: Path, tmp_path: Path) -> None:
    merged = AutoModelForCausalLM.from_pretrained(algo.export_model(tmp_path / "model"))
    base = AutoModelForCausalLM.from_pretrained(model)
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        live = algo.learner_group._learner.module[MODULE].llm(ids).logits
        assert (merged(ids).logits - live).abs().max() < 1e-4
        assert (base(ids).logits - live).abs().max() > 0.1
        adapted = PeftModel.from_pretrained(base, algo.export_adapter(tmp_path / "model_adapter"))
        assert (adapted(ids).logits - live).abs().max() < 1e-4
    names = {path.name for path in (tmp_path / "model_adapter").iterdir()}
    assert names == {"adapter_config.json", "adapter_model.safetensors"}


@pytest.mark.vllm
def test_S1_vllm_samples_with_merged_weights_and_loads_the_exported_model(model: Path, tmp_path: Path) -> None:
    config = digits_config(model, **SETTINGS | {"num_minibatches": 1}).env_runners(num_env_runners=1)
    algo = config.rollout(engine="vllm", max_concurrent=8).build_algo()
    for _ in range(3):
        # Stale or unmerged weights would show from the second iteration on.
        assert algo.train()["starpo"]["logprob_gap_max"] < 1e-4
    exported = algo.export_model(tmp_path / "model")
    expected = algo.evaluate_split("val", 8, greedy=True)
    algo.stop()
    again = digits_config(exported, group_size=2).env_runners(num_env_runners=1)
    second = again.rollout(engine="vllm", max_concurrent=8).build_algo()
    assert second.evaluate_split("val", 8, greedy=True)["return_mean"] == expected["return_mean"]
    assert second.train()["starpo"]["logprob_gap_max"] < 1e-4
    second.stop()


def test_a_whole_run_leaves_the_merged_model_and_the_adapter(tmp_path: Path, local_ray: None) -> None:
    config = build_config(
        {"iterations": 2, "name": "lora", "results_dir": str(tmp_path)},
        {
            "rollout": {"engine": "hf", "num_groups": 2, "group_size": 2},
            "eval": {"interval": 0, "num_test_instances": 2},
        },
        {"learner": {"lora_rank": 4, "lr": 1e-3, "torch_threads": 1}, "credit": {"normalize": "none"}},
    )
    folder = RunFolder.create(config, "lora")
    run_training(Surroundings(config, folder, Display(io.StringIO()), Interrupt(print)))
    base = AutoModelForCausalLM.from_pretrained(TINY)
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        merged = AutoModelForCausalLM.from_pretrained(folder.export)(ids).logits
        plain = base(ids).logits
        adapted = PeftModel.from_pretrained(base, folder.export_adapter)(ids).logits
    assert (adapted - merged).abs().max() < 1e-4 < (plain - merged).abs().max()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"lora_alpha": 8.0}, "learner.lora_alpha=8.0 with learner.lora_rank=null"),
        ({"lora_targets": ["q_proj"]}, "learner.lora_targets=['q_proj'] with learner.lora_rank=null"),
        ({"lora_rank": 0}, "learner.lora_rank: must be an integer ≥ 1 and ≤ 65536, or null, got 0"),
        ({"lora_rank": 2, "lora_alpha": 0.0}, "learner.lora_alpha: must be a number > 0 and ≤ 1e+06, or null, got 0.0"),
        ({"lora_rank": 2, "lora_targets": []}, "learner.lora_targets=[] leaves nothing to train"),
        ({"lora_rank": 2, "lora_targets": "q_proj"}, "learner.lora_targets: must be a list"),
        ({"lora_rank": 2, "lora_targets": ["q_prj"]}, "'q_prj'; did you mean q_proj? allowed: down_proj, gate_proj"),
        ({"lora_rank": 2, "lora_targets": ["q_proj", "lm_head"]}, "no linear layer is called 'lm_head'"),
        ({"lora_rank": 65}, "learner.lora_rank=65 is not low: no matrix that it is for has a higher rank than 64"),
        ({"lora_rank": 33, "lora_targets": ["k_proj"]}, "allowed: 1 to 32, or null for all weights"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(model: Path, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)) as refusal:
        digits_config(model, **settings).validate()
    assert "\n" not in str(refusal.value)


def test_a_missing_peft_is_said_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("rllib_ragen.starpo.checks.lora.find_spec", lambda name: None if name == "peft" else find(name))
    check_lora(LearnerSection(), TINY)
    with pytest.raises(ConfigError, match=r"needs the library peft: pip install 'rllib_ragen\[lora\]'"):
        check_lora(LearnerSection(lora_rank=2), TINY)


def test_a_weight_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"12345678901234567890")
    with pytest.raises(ValueError, match=r"model\.path: .* cannot be read"):
        check_lora(LearnerSection(lora_rank=2), tmp_path)
