"""`--dry-run`: arithmetic that a hand, published counts and a real forward pass agree with; nothing is started."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from rllib_ragen.config.hub_models import HUB_MODELS
from rllib_ragen.config.load import read_yaml
from rllib_ragen.config.presets import SETTINGS
from rllib_ragen.models.attention import ATTENTION
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.load import empty_model, load_config, load_model
from rllib_ragen.models.shape import ModelShape
from rllib_ragen.models.weight_headers import read_header, weight_paths
from rllib_ragen.run.__main__ import layers, main, parse
from rllib_ragen.run.estimate import cost, memory
from rllib_ragen.starpo.checks.build_config import build_config

RECIPES = sorted((SETTINGS / "recipes").glob("*/*.yaml"))
PUBLISHED = {
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2.5-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen2.5-3B-Instruct": 3_085_938_688,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
    "HuggingFaceTB/SmolLM2-360M-Instruct": 361_821_120,
    "HuggingFaceTB/SmolLM2-1.7B-Instruct": 1_711_376_384,
}
"""Weights in the models' files on the Hub."""
SMALL = ModelShape("llama", layers=2, hidden=8, heads=2, kv_heads=1, head_size=4, inner=16, vocabulary=32, tied=True)


def shape_of(name: str) -> ModelShape:
    return ModelShape.of(SimpleNamespace(**HUB_MODELS[name]))


def test_the_table_has_the_models_that_are_published() -> None:
    assert {name: shape_of(name).parameters for name in HUB_MODELS} == PUBLISHED


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-0.5B-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"])
def test_the_table_makes_the_model_that_transformers_makes(name: str) -> None:
    stated = dict(HUB_MODELS[name])
    config = AutoConfig.for_model(stated.pop("model_type"), **stated)
    made = empty_model(config)
    assert sum(weight.numel() for weight in made.parameters()) == shape_of(name).parameters
    assert ModelShape.of(config) == shape_of(name)


def test_the_embedded_models_weights_are_counted_right() -> None:
    folder = model_folder("tiny")
    headers = [weight for path in weight_paths(folder) for weight in read_header(path).values()]
    assert ModelShape.of(load_config(folder)).parameters == sum(math.prod(weight.shape) for weight in headers)


def test_a_case_that_was_worked_out_by_hand() -> None:
    # A block: 8·(8 + 2·4) + 8·8 of attention, 3·8·16 of MLP, 2·8 of norms; then the last norm and 32·8 embeddings.
    assert SMALL.parameters == 2 * (128 + 64 + 384 + 16) + 8 + 256 == 1_448
    assert SMALL.kv_bytes(2) == 2 * 2 * 4 * 2
    assert SMALL.kept_bytes(4) == 16 * 8 + 4 * (16 + 24 + 8 + 64)
    assert SMALL.lora_parameters(2) == 2 * 2 * (2 * 16 + 2 * 12 + 3 * 24)
    # 10 tokens in contexts of 6: 2 for each weight, and 2·layers·heads·head size·context.
    assert SMALL.forward_flops(10, 6, 1_448) == 10 * (2 * 1_448 + 2 * 2 * 8 * 6)
    config = build_config(
        {
            "rollout": {"num_groups": 4, "group_size": 4, "max_reply_tokens": 5, "max_context_tokens": 50},
            "credit": {"estimator": "gae", "normalize": "none"},
            "learner": {"kl_coeff": 0.1, "num_minibatches": 4, "microbatch_tokens": 64, "num_epochs": 2},
            "env": {"max_turns": 3},
        }
    )
    learner, runner = memory(config, SMALL, 1_448, chunk_elements=1_000)
    trained = 1_448 + 8 * 8 + 2 * 8 + 1  # the critic's too
    assert learner.parts == {
        "weights": 4 * trained, "gradients": 4 * trained, "Adam": 8 * trained, "reference": 4 * 1_448,
        # A step has 4 rows of at most 50 tokens, a pass 64 tokens of them.
        "activations": 64 * 2 * SMALL.kept_bytes(4), "logits": 4 * 4 * 1_000,
    }  # fmt: skip
    # It samples with the learner's own weights.
    assert runner.parts == {"KV cache": 16 * 50 * SMALL.kv_bytes(4)}
    found = cost(config, SMALL, 1_448)
    assert (found.trajectories, found.sampled_tokens, found.trained_tokens) == (16, 16 * 15, 16 * 15 * 2)
    forward = SMALL.forward_flops(16 * 50, 50, 1_448)
    assert found.sampling_flops == forward
    # Two epochs of forward and backward, the reference and the critic's values.
    assert found.update_flops == (2 * 3 + 1 + 1) * forward


@pytest.mark.parametrize(
    ("settings", "name", "share"),
    [
        ({"learner": {"num_learners": 2, "sharding": "fsdp2"}}, "Adam", 0.5),
        ({"learner": {"num_learners": 2}}, "Adam", 1.0),
        ({"learner": {"gradient_checkpointing": True}}, "activations", None),
        ({"rollout": {"num_env_runners": 1, "num_gpus_per_env_runner": 2}}, "KV cache", 0.5),
    ],
)
def test_what_is_split_is_counted_once(settings: dict[str, Any], name: str, share: float | None) -> None:
    base = {"learner": {"num_learners": 1}, "rollout": {"num_env_runners": 1}}

    def part(given: dict[str, Any]) -> int:
        processes = memory(build_config(base, given), SMALL, 1_448, 1_000)
        return next(process.parts[name] for process in processes if name in process.parts)

    if share is None:
        assert part(settings) < part({})
    else:
        assert part(settings) == share * part({})


def test_activations_are_about_what_a_forward_pass_keeps() -> None:
    folder, tokens = model_folder("tiny"), 256
    model = load_model(folder, torch.float32, attention=ATTENTION)
    known = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = model.get_decoder()(torch.ones(1, tokens, dtype=torch.int64)).last_hidden_state
    shape = ModelShape.of(model.config)
    estimated = tokens * shape.layers * shape.kept_bytes(4)
    assert hidden.requires_grad and 0.75 < estimated / sum(kept.values()) < 1.33


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_recipe_is_a_run(path: Path) -> None:
    config = build_config(*layers(parse(["--config", str(path), "--dry-run"])))
    assert (config.preset, config.env.name) == ("ragen-v2", path.stem)
    assert config.model.path in HUB_MODELS
    learner, runner = memory(config, shape_of(config.model.path), PUBLISHED[config.model.path], 1 << 25)
    sharing = learner.gpus + runner.gpus <= 1
    assert (learner.total + runner.total if sharing else max(learner.total, runner.total)) < 80 << 30
    assert read_yaml(path).keys() <= {"preset", "env", "model", "rollout", "learner", "vllm"}


def test_recipes_are_there_for_every_environment_and_model() -> None:
    assert len(RECIPES) == 3 * len({path.stem for path in RECIPES}) == 30


def test_a_dry_run_starts_nothing_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = SETTINGS / "recipes" / "qwen2.5-0.5b" / "sokoban.yaml"
    assert main(["--config", str(recipe), "--dry-run", "--results-dir", str(tmp_path / "none")]) == 0
    said = capsys.readouterr().out
    assert "Qwen/Qwen2.5-0.5B-Instruct: 494.0M weights" in said and "its files are not checked" in said
    assert "1 learner, 0.5 GPU each" in said and "all on one GPU" in said and "128 trajectories, 256,000 tokens" in said
    assert main(["--env", "bandit", "--dry-run", "--results-dir", str(tmp_path / "none")]) == 0
    assert "number of weights from its files" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--preset", "ragen-v2"], "rollout.max_context_tokens=3600 is more than the model's length of 2048"),
        (["--set", "trackers=[tensorboard,tensorboard]"], "trackers: .* names tensorboard twice"),
        (["--model", "no/such/folder"], "model.path: there is no folder"),
        (["--estimator", "grppo"], "credit.estimator: unknown estimator 'grppo'"),
    ],
)
def test_a_dry_run_refuses_what_a_run_refuses(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    assert main(["--dry-run", *arguments]) == 2
    assert re.search(sentence, capsys.readouterr().err)


def test_a_run_of_a_model_that_is_not_in_the_cache_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    name = "Qwen/Qwen2.5-0.5B-Instruct"
    assert main(["--model", name, "--results-dir", str(tmp_path / "results")]) == 2
    assert f"hf download {name}" in capsys.readouterr().err
    snapshot = tmp_path / "models--Qwen--Qwen2.5-0.5B-Instruct" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("abc")
    assert model_folder(name) == snapshot


def test_a_dry_run_of_several_environments_tells_each_and_weighs_their_lengths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    envs = [{"name": "sokoban", "weight": 3, "max_turns": 2}, {"name": "frozen_lake", "max_turns": 4}]
    rollout = {"max_reply_tokens": 10, "max_context_tokens": 200, "num_groups": 1, "group_size": 2}
    found = cost(build_config({"envs": envs, "rollout": rollout}), SMALL, 1_000)
    assert found.sampled_tokens == 2 * 25, "¾ · 20 + ¼ · 40, of each of the two"
    (tmp_path / "run.yaml").write_text("envs: [{name: sokoban}, {name: frozen_lake}]")
    assert main(["--dry-run", "--config", str(tmp_path / "run.yaml")]) == 0
    said = capsys.readouterr().out
    for line in (
        "task        sokoban, 50.0 % of the groups: random ",
        "task        frozen_lake, 50.0 % of the groups: ",
    ):
        assert line in said
