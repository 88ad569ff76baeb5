"""What `--resume` refuses before anything starts: torn checkpoints, and configs that are not the checkpoint's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from ragen_envs.games.registry import game_names
from ragen_envs.registry import env_names
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import algorithm_preset, preset
from rllib_ragen.config.presets import algorithm_names
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.models.folder import model_folder
from rllib_ragen.run.__main__ import main, parse, plan
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.starpo.checkpoint.manifest import config_differences
from rllib_ragen.starpo.checkpoint.save import save_checkpoint
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.starpo.config import StarPOConfig
from tests.run.checkpoint_writer import state_of


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run of bandit with checkpoints of iterations 2 and 4 of 4."""
    return made_run(tmp_path)


def made_run(tmp_path: Path, **keys: object) -> RunFolder:
    config = build_config({"env": {"name": "bandit"}, "iterations": 4, "results_dir": str(tmp_path), **keys})
    made = RunFolder.create(config, "run")
    for iteration in (2, 4):
        state = {**state_of(iteration), "weights_seq_no": iteration}
        state["rl_module"]["default_policy"]["llm.weight"] = np.zeros((2, 2), np.float32)
        facts = config.model_dump(mode="json")
        made.save_checkpoint(iteration, lambda path: save_checkpoint(path, state, {}, facts, model_folder("tiny")), 0)  # noqa: B023
    return made


def refused(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["--resume", str(folder.path), "--iterations", "9"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_config_that_was_changed_by_hand_is_refused_key_by_key(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder.path / "config.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("lr: 0.0001", "lr: 0.5").replace("group_size: 4", "group_size: 8"), encoding="utf-8")
    said = refused(folder, capsys)
    assert "config.yaml and its checkpoint differ: rollout.group_size (4 in the checkpoint, 8 here); learner.lr" in said
    assert "(0.0001 in the checkpoint, 0.5 here)" in said


def test_a_torn_newest_checkpoint_is_named_with_what_to_delete(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = folder.newest_checkpoint()
    weights = newest.path / "default_policy" / "policy" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    said = refused(folder, capsys)
    assert re.search(r"model\.safetensors' has \d+ bytes, not the \d+ that were written: it is torn", said)
    assert f"delete {newest.path} to go on from iteration 2" in said


def test_a_judge_may_be_given_more_to_spend_and_nothing_else_may_change(tmp_path: Path) -> None:
    judge = {"name": "judge", "base_url": "http://127.0.0.1:1/v1", "model": "m", "budget_calls": 9}
    folder = made_run(tmp_path, rewards=[judge])

    def resumed(**changed: object) -> RunConfig:
        words = ["--resume", str(folder.path), "--iterations", "9", "--set", f"rewards={json.dumps([judge | changed])}"]
        return plan(parse(words)).config

    found = resumed(budget_calls=99, cache=str(tmp_path / "answers.jsonl")).rewards[0].settings
    assert (found["budget_calls"], found["cache"]) == (99, str(tmp_path / "answers.jsonl"))
    with pytest.raises(ConfigError, match=r"^rewards: the run in .* has \[.*a resumed run may change only"):
        resumed(budget_calls=99, weight=0.5)


def test_only_what_is_learnt_is_compared() -> None:
    one = RunConfig(seed=1).model_dump(mode="json")
    other = RunConfig(seed=1, iterations=7, name="x", eval={"interval": 3}, checkpoint_interval=9)
    assert config_differences(one, other.model_dump(mode="json")) == []
    assert config_differences(one, RunConfig(seed=2).model_dump(mode="json")) == ["seed (1 in the checkpoint, 2 here)"]
    by_id = RunConfig(seed=1, env={"name": "ragen/Sokoban-v0"}).model_dump(mode="json")
    assert config_differences(one, by_id) == []


@pytest.mark.parametrize("name", [*env_names(), *game_names()])
def test_a_run_and_its_own_checkpoint_never_differ(name: str) -> None:
    """What is written into a checkpoint has been through RLlib's form of the config."""
    compared = 0
    for algorithm in algorithm_names():
        try:
            run = build_config(preset(name), algorithm_preset(algorithm))
        except ConfigError:  # not for this task
            continue
        saved = StarPOConfig.from_run_config(run).to_run_config().model_dump(mode="json")
        assert config_differences(saved, run.model_dump(mode="json")) == [], algorithm
        compared += 1
    assert compared > 3
