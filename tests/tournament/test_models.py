"""Models at tables: found on disk under names of their own, and playing as in a rollout, whatever the batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from ragen_envs.games import make_game, make_text_game
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.lora_settings import LoraSettings
from rllib_ragen.models.weight_arrays import from_array
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.starpo.checkpoint.save import save_checkpoint
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.tournament import matches
from rllib_ragen.tournament.__main__ import main
from rllib_ragen.tournament.match_session import Record
from rllib_ragen.tournament.matches import play_all, round_robin
from rllib_ragen.tournament.model_player import load_player
from rllib_ragen.tournament.model_sources import find_model, find_models
from rllib_ragen.tournament.reply_limits import ReplyLimits
from tests.tournament.checkpoints import random_adapters, run_with_checkpoints

TINY = model_folder("tiny")
BRIEF = {"prompt_style": "brief"}


def test_models_are_found_by_run_checkpoint_policy_and_folder(tmp_path: Path) -> None:
    older, newer = run_with_checkpoints(tmp_path / "run", (3, 10), config={"env": {"name": "kuhn_poker"}})
    assert find_model("tiny").folder == TINY and find_model("tiny").config is None
    assert find_model(str(TINY)).name == TINY.name
    for given in (tmp_path / "run", newer, newer / "default_policy"):
        found = find_model(str(given))
        assert (found.name, found.folder) == ("run/iteration_000010", newer / "default_policy" / "policy")
        assert found.config is not None and found.config["env"]["name"] == "kuhn_poker"
    names = [source.name for source in find_models([str(older), str(newer), "tiny"])]
    assert names == ["run/iteration_000003", "run/iteration_000010", "tiny"]
    policies = [str(path / "default_policy" / "policy") for path in (older, newer)]
    names = [source.name for source in find_models([*policies, "tiny"])]
    assert names == [f"iteration_{number}/default_policy/policy" for number in ("000003", "000010")] + ["tiny"]
    with pytest.raises(ConfigError, match="is named twice"):
        find_models([str(newer), str(tmp_path / "run")])


def test_of_several_policies_one_must_be_named(tmp_path: Path) -> None:
    (path,) = run_with_checkpoints(tmp_path / "run", (1,), policies=("buyer", "seller"))
    (league,) = run_with_checkpoints(tmp_path / "league", (1,), policies=("default_policy", "league_0"))
    assert find_model(str(league)).name == "league/iteration_000001"
    assert find_model(str(league / "league_0")).name == "league/iteration_000001/league_0"
    with pytest.raises(ConfigError, match=r"holds the policies buyer, seller: name one, as .*buyer"):
        find_model(str(path))
    assert find_model(str(path / "seller")).name == "run/iteration_000001/seller"
    with pytest.raises(ConfigError, match="has no policy 'lender'; it has buyer, seller"):
        find_model(str(path / "lender"))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="is no model; allowed: tiny, smollm2, a GGUF file, a transformers folder, a run folder"
    ):
        find_model(str(tmp_path))
    (path,) = run_with_checkpoints(tmp_path / "run", (1,))
    (path / "default_policy" / "policy" / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"config\.json"):
        find_model(str(path))


def test_a_model_plays_the_same_whatever_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ReplyLimits(max_reply_tokens=12)
    fixtures = round_robin(["tiny", "uniform"], make_game("kuhn_poker"), plays=4, seed=0)
    found: list[list[Record]] = []
    for tables in (1, 128):
        monkeypatch.setattr(matches, "MAX_TABLES", tables)
        models = {"tiny": load_player(find_model("tiny"), limits)}
        found.append(play_all(fixtures, models, lambda: make_text_game("kuhn_poker", None, BRIEF)))
    assert found[0] == found[1]


def test_the_command_rates_checkpoints_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {
        "env": {"name": "kuhn_poker", "format_penalty": -0.5, "prompt_style": "brief"},
        "multi_agent": {"illegal_move": "penalty", "mode": "self_play"},
        "rollout": {"max_reply_tokens": 8, "num_groups": 3},
    }
    first, second = run_with_checkpoints(tmp_path / "run", (1, 2), config=config)
    out = tmp_path / "found.json"
    words = [str(first), str(second), "--plays", "3", "--out", str(out)]
    assert main([*words, "--set", "rollout.max_context_tokens=1000000"]) == 2
    assert "rollout.max_context_tokens=1000000 is more than the model's length" in capsys.readouterr().err
    assert main(words) == 0
    shown, found = capsys.readouterr().out, json.loads(out.read_text())
    assert "kuhn_poker: 4 players, 36 games" in shown and "Elo, uniform = 1000" in shown
    names = ["run/iteration_000001", "run/iteration_000002", "uniform", "kuhn_equilibrium"]
    assert set(found["elo"]) == set(found["exploitability"]) == set(names) and found["elo"]["uniform"]["elo"] == 1000
    assert all(name in shown for name in names)
    # The run's own settings, where it says nothing else.
    assert found["limits"]["illegal_reward"] == -0.5 and found["limits"]["prompt_style"] == "brief"
    assert found["replies"]["max_reply_tokens"] == 8 and found["games"] == 36
    # The same weights, instances and rules: only sampling differs.
    results = {(one["player"], one["seat"], one["opponent"]): one for one in found["results"]}
    assert len(results) == 24 and all(one["games"] == 3 for one in results.values())
    assert found["exploitability"]["kuhn_equilibrium"]["nash_conv"] == 0
    assert main(words) == 2 and "exists already; give --force" in capsys.readouterr().err


def test_adapters_of_a_checkpoint_are_merged_into_their_model(tmp_path: Path) -> None:
    """The loaded weights are W + alpha/rank · B A of the checkpoint's adapters."""
    settings = LoraSettings(rank=2, alpha=6.0, targets=["q_proj"])
    state = random_adapters(settings)
    learner = {"weights_seq_no": 1, "rl_module": {"default_policy": state}, "optimizer": {}, "skipped_in_a_row": {}}
    path = tmp_path / "iteration_000001"
    save_checkpoint(path, learner, {}, build_config({}).model_dump(mode="json"), TINY, lora=settings)
    source = find_model(str(path))
    assert (source.name, source.folder, source.adapter) == (
        "iteration_000001",
        TINY.resolve(),
        path / "default_policy" / "adapter",
    )
    loaded = load_player(source, ReplyLimits()).engine
    assert isinstance(loaded, HFEngine)
    weights = loaded.model.state_dict()
    before = AutoModelForCausalLM.from_pretrained(TINY).state_dict()
    layer = next(name for name in before if name.endswith("q_proj.weight"))
    part = {name.split(".lora_")[1][0]: array for name, array in state.items() if layer[:-7] in name}
    expected = before[layer] + 3.0 * from_array(part["B"]) @ from_array(part["A"])
    assert torch.allclose(weights[layer], expected, atol=1e-5) and not torch.equal(weights[layer], before[layer])
    other = next(name for name in before if name.endswith("k_proj.weight"))
    assert torch.equal(weights[other], before[other])
