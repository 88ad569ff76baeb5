"""Checkpoints: exact, layout-independent, free of pickle, loud when torn."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from transformers import AutoModelForCausalLM, AutoTokenizer

from rllib_ragen.models.llm_module import LLMRLModule
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.checkpoint import load
from rllib_ragen.starpo.checkpoint.save import load_learner_state
from tests.starpo.build import MODULE, digits_config, largest_difference, metrics_of, weights

pytestmark = pytest.mark.usefixtures("local_ray")
SETTINGS: dict[str, Any] = {"estimator": "gae", "num_minibatches": 2, "group_size": 2}


def test_a_checkpoint_holds_no_pickle_and_a_plain_transformers_folder(model: Path, tmp_path: Path) -> None:
    algo = digits_config(model, **SETTINGS).build_algo()
    algo.train()
    algo.save_checkpoint(str(tmp_path))
    algo.save_checkpoint(str(tmp_path))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".safetensors", ".jinja"}
    assert not any(path.name.endswith(".part") for path in files)
    policy = tmp_path / MODULE / "policy"
    restored = AutoModelForCausalLM.from_pretrained(policy).state_dict()
    own = algo.learner_group._learner.module[MODULE].llm.state_dict()
    assert all(torch.equal(restored[name], own[name]) for name in own)
    assert AutoTokenizer.from_pretrained(policy).chat_template
    exported = algo.export_model(tmp_path / "export")
    assert torch.equal(
        AutoModelForCausalLM.from_pretrained(exported).lm_head.weight,
        own["lm_head.weight"],
    )
    algo.stop()


def test_from_checkpoint_builds_the_run_that_was_saved(model: Path, tmp_path: Path) -> None:
    algo = digits_config(model, lr=2e-4, clip_high=0.5).debugging(seed=9).build_algo()
    algo.train()
    algo.save_to_path(tmp_path)
    twin = StarPO.from_checkpoint(str(tmp_path))
    assert (twin.config.lr, twin.config.clip_high, twin.config.seed, twin.iteration) == (2e-4, 0.5, 9, 1)
    assert twin.policy_version == 1
    algo.stop()
    twin.stop()


def test_rllibs_own_way_in_says_what_to_call(model: Path, tmp_path: Path) -> None:
    """`Algorithm.from_checkpoint` would unpickle; there is no pickle, and the sentence is run as it stands."""
    algo = digits_config(model).debugging(seed=9).build_algo()
    folder = algo.save_to_path(tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pkl", ".pickle", ".msgpck")]
    with pytest.raises(ValueError, match="no pickle but a StarPO checkpoint") as raised:
        Algorithm.from_checkpoint(folder)
    told: dict[str, Any] = {"path": folder}
    (imported,) = re.findall(r"(from \S+ import \w+)", str(raised.value))
    (called,) = re.findall(r"call (\S+\(path\))", str(raised.value))
    exec(f"{imported}\ntwin = {called}", told)
    twin = told["twin"]
    assert twin.config.seed == 9
    twin.stop()
    with pytest.raises(ValueError, match=r"For all of a run call StarPO\.from_checkpoint"):
        LLMRLModule.from_checkpoint(tmp_path)
    algo.stop()


def test_rllibs_other_doors_save_and_restore_the_same(model: Path, tmp_path: Path) -> None:
    algo = digits_config(model).build_algo()
    algo.train()
    folder = algo.save_to_path()
    saved = weights(algo.learner_group._learner)
    algo.train()
    algo.restore_from_path(folder)
    assert largest_difference(weights(algo.learner_group._learner), saved) == 0.0 and algo.iteration == 1
    algo.train()
    algo.restore(folder)
    assert largest_difference(weights(algo.learner_group._learner), saved) == 0.0 and algo.iteration == 1
    result = algo.save(str(tmp_path / "by_tune"))
    algo.train()
    algo.restore(result.checkpoint.path)
    assert largest_difference(weights(algo.learner_group._learner), saved) == 0.0
    with pytest.raises(ValueError, match=r"restore_from_path\(component=…\): a StarPO checkpoint is .* whole"):
        algo.restore_from_path(folder, component="learner_group")
    with pytest.raises(ValueError, match=r"save_to_path\(use_msgpack=…\)"):
        algo.save_to_path(folder, use_msgpack=True)
    with pytest.raises(ValueError, match="holds no complete checkpoint"):
        algo.restore_from_path(tmp_path / "nothing")
    algo.stop()


def test_an_older_checkpoint_replaces_newer_weights(model: Path, tmp_path: Path) -> None:
    algo = digits_config(model).build_algo()
    algo.train()
    algo.save_checkpoint(str(tmp_path))
    saved = weights(algo.learner_group._learner)
    expected = metrics_of(algo.train())
    algo.load_checkpoint(str(tmp_path))
    assert largest_difference(weights(algo.learner_group._learner), saved) == 0.0
    assert metrics_of(algo.train()) == expected
    algo.stop()


def test_a_checkpoint_before_the_first_update_can_be_resumed(model: Path, tmp_path: Path) -> None:
    algo = digits_config(model).build_algo()
    algo.save_checkpoint(str(tmp_path))
    expected = metrics_of(algo.train())
    algo.load_checkpoint(str(tmp_path))
    assert metrics_of(algo.train()) == expected
    algo.stop()


@pytest.fixture
def saved(model: Path, tmp_path: Path) -> Path:
    """A checkpoint."""
    algo = digits_config(model).build_algo()
    algo.save_checkpoint(str(tmp_path / "saved"))
    algo.stop()
    return tmp_path / "saved"


def test_an_incomplete_checkpoint_is_refused(saved: Path) -> None:
    (saved / "state.json").unlink()
    with pytest.raises(ValueError, match="no complete checkpoint"):
        load_learner_state(saved)


def test_every_file_that_is_torn_tampered_with_or_missing_is_refused_by_name(saved: Path) -> None:
    files = [path for path in sorted(saved.rglob("*")) if path.is_file()]
    assert {"state.json", "model.safetensors", "optimizer.safetensors", "tokenizer.json"} <= {f.name for f in files}
    for path in files:
        whole = path.read_bytes()
        middle = len(whole) // 2
        flipped = bytes([whole[middle] ^ 1])
        for spoilt in (whole[:middle], whole[:middle] + flipped + whole[middle + 1 :], b""):
            path.write_bytes(spoilt)
            with pytest.raises(ValueError, match=re.escape(repr(str(path)))):
                load_learner_state(saved)
        path.write_bytes(whole)
        load_learner_state(saved)
    (saved / MODULE / "policy" / "config.json").unlink()
    with pytest.raises(ValueError, match=r"config\.json' is missing"):
        load_learner_state(saved)


def test_another_versions_format_is_told_as_such(saved: Path) -> None:
    (saved / "state.json").write_text('{"format": 1, "modules": []}')
    with pytest.raises(ValueError, match="has format 1, this version reads 2"):
        load_learner_state(saved)


def test_other_settings_are_told_key_by_key(saved: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    algo = digits_config(model, lr=5e-4, clip_high=0.5).build_algo()
    told: list[str] = []
    monkeypatch.setattr(load.logger, "warning", lambda text, *values: told.append(text % values))
    algo.load_checkpoint(str(saved))
    assert len(told) == 1
    assert "learner.lr (0.001 in the checkpoint, 0.0005 here); learner.clip_high (0.28" in told[0]
    algo.stop()


def test_another_models_checkpoint_is_refused_and_changes_nothing(saved: Path, model: Path, tmp_path: Path) -> None:
    algo = digits_config(model, estimator="gae").build_algo()
    before = weights(algo.learner_group._learner)
    with pytest.raises(ValueError, match=r"value_head.*; credit\.estimator \('rloo' in the checkpoint, 'gae' here\)"):
        algo.load_checkpoint(str(saved))
    assert largest_difference(weights(algo.learner_group._learner), before) == 0.0
    algo.stop()
    shutil.rmtree(saved)
