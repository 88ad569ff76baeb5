"""Algorithms by one word: what ships is valid with every environment, is layered as said, and runs as it is."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from ragen_envs.registry import env_names
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import algorithm_preset, flatten, parse_assignments, preset, read_yaml
from rllib_ragen.config.presets import algorithm_names
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.__main__ import parse, plan
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.starpo.config import StarPOConfig

FOLDER = Path(__file__).parents[2] / "tune_configs" / "algorithms"
ALGORITHMS = algorithm_names()
ALWAYS_SET = {
    *("credit.estimator", "credit.normalize", "credit.filter", "credit.dynamic_sampling_rounds", "learner.loss"),
    *("learner.clip_low", "learner.clip_high", "learner.aggregation", "learner.kl_coeff"),
}


def planned(tmp_path: Path, *arguments: str) -> RunConfig:
    """The config of a run with these options."""
    return plan(parse([*arguments, "--engine", "hf", "--results-dir", str(tmp_path), "--name", "run"])).config


def test_the_files_are_what_can_be_chosen() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == ALGORITHMS
    assert {"ppo", "grpo", "dr_grpo", "dapo", "gspo", "gigpo", "rloo", "reinforce++", "starpo", "starpo_s"} <= set(
        ALGORITHMS
    )


@pytest.mark.parametrize("env", env_names())
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_fits_every_environment(name: str, env: str) -> None:
    config = build_config(preset(env), algorithm_preset(name))
    assert config.env == build_config(preset(env)).env
    said = flatten(algorithm_preset(name))
    assert {key: value for key, value in flatten(config.model_dump()).items() if key in said} == said


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_means_the_same_whatever_lies_beneath_and_leaves_the_rest_alone(name: str) -> None:
    said = algorithm_preset(name)
    assert flatten(said).keys() >= ALWAYS_SET
    assert said.keys() == {"credit", "learner"}
    assert not {"lr", "critic_lr", "betas", "num_epochs"} & said["learner"].keys()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_file_is_a_config_of_its_own(name: str) -> None:
    assert build_config(read_yaml(FOLDER / f"{name}.yaml")) == build_config(algorithm_preset(name))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_python_says_it_in_one_word_too_and_later_setters_win(name: str) -> None:
    config = StarPOConfig().algorithm(name)
    assert config.to_run_config() == build_config(algorithm_preset(name))
    assert config.training(clip_high=0.5).to_run_config().learner.clip_high == 0.5


def test_environment_then_algorithm_then_flags_then_set(tmp_path: Path) -> None:
    arguments = ["--env", "frozen_lake", "--algorithm", "dapo", "--estimator", "rloo", "--set", "learner.clip_high=0.5"]
    config = planned(tmp_path, *arguments)
    assert (config.env.name, config.env.task["size"]) == ("frozen_lake", 4)
    assert (config.credit.dynamic_sampling_rounds, config.credit.normalize) == (3, "none")
    assert (config.credit.estimator, config.learner.clip_high) == ("rloo", 0.5)
    assert config.learner.lr == build_config(preset("frozen_lake")).learner.lr


def test_an_algorithm_also_goes_over_a_config_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("env: {name: bandit, max_turns: 1}\ncredit: {estimator: gae}\nseed: 3\n")
    config = planned(tmp_path, "--config", str(file), "--algorithm", "grpo")
    assert (config.env.name, config.seed, config.credit.estimator) == ("bandit", 3, "grpo")


def test_the_saved_config_holds_the_keys_and_not_the_word(tmp_path: Path) -> None:
    config = planned(tmp_path, "--algorithm", "gigpo")
    saved = read_yaml(tmp_path / "run" / "config.yaml")
    assert "algorithm" not in flatten(saved)
    assert build_config(saved) == config
    assert saved["credit"]["estimator"] == "gigpo"


@pytest.mark.parametrize("name", ["gspo", "dapo", "ppo", "starpo_s"])
def test_an_algorithm_in_the_estimators_place_is_answered_with_where_it_belongs(name: str) -> None:
    says = rf"credit\.estimator: {name} is a whole algorithm.*--algorithm {name}, .*allowed here: bi_level_gae, cloning"
    with pytest.raises(ConfigError, match=says) as caught:
        build_config(parse_assignments([f"credit.estimator={name}"]))
    assert "\n" not in str(caught.value)


def test_an_unknown_algorithm_is_answered_with_the_nearest_and_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--algorithm: unknown 'gigp'; did you mean gigpo\? allowed: bi_level_gae, "):
        planned(tmp_path, "--algorithm", "gigp")


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_trains_the_embedded_model_as_its_file_says(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "rllib_ragen.run", "--config", str(FOLDER / f"{name}.yaml"), "--engine", "hf"),
            *("--iterations", "2", "--num-groups", "8", "--results-dir", str(tmp_path), "--name", "run"),
            *("--set", "eval.interval=0", "eval.num_test_instances=0", "learner.torch_threads=1"),
        ],
        cwd=FOLDER.parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "run" / "progress.jsonl").read_text().splitlines()]
    trained = [row for row in rows if "split" not in row]
    assert [row["policy_version"] for row in trained] == [1, 2]
    for row in trained:
        assert row["num_trained_tokens"] > 0 and row["grad_norm"] > 0
        assert math.isfinite(row["policy_loss"]) and math.isfinite(row["entropy"])
