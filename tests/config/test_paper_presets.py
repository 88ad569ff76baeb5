"""Papers' settings: beneath YAML, algorithm and command line, over the defaults; recorded, and the same in Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragen_envs.presets import PAPER_ENVS, PAPER_PRESETS, preset
from ragen_envs.registry import env_names
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import flatten, foundation, paper_preset, read_yaml
from rllib_ragen.config.load import preset as environment
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.yaml_text import parse_yaml
from rllib_ragen.run.__main__ import layers, parse
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.sweep.spec import read_sweep

TOP = Path(__file__).parents[2]


def config_of(*arguments: str) -> RunConfig:
    return build_config(*layers(parse(list(arguments))))


def test_defaults_then_preset_then_yaml_then_command_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("env: {name: frozen_lake}\nlearner: {grad_clip: 0.5, clip_high: 0.3}\n")
    config = config_of("--config", str(file), "--preset", "ragen-v1", "--set", "learner.clip_high=0.4")
    assert config.preset == "ragen-v1"
    assert (config.learner.clip_high, config.learner.grad_clip, config.learner.lr) == (0.4, 0.5, 1e-6)
    assert config.learner.microbatch_tokens == RunConfig().learner.microbatch_tokens
    assert config.env.task == {"p_frozen": 0.8, "success_rate": 1 / 3, "observation": "grid"}
    without = config_of("--config", str(file))
    assert (without.preset, without.learner.lr, without.env.task) == (None, RunConfig().learner.lr, {})


def test_a_file_may_name_it_itself_and_so_may_python_and_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("preset: ragen-v2\nenv: {name: bandit}\n")
    expected = config_of("--env", "bandit", "--preset", "ragen-v2")
    assert config_of("--config", str(file)) == expected
    assert build_config(foundation({"preset": "ragen-v2", "env": {"name": "bandit"}})) == expected
    base = {**read_yaml(file), "rollout": {"max_context_tokens": 2000}}
    spec = read_sweep({"name": "s", "base": base, "space": {"learner.clip_low": {"choice": [0.1, 0.2]}}}, tmp_path)
    config = spec.config({"learner.clip_low": 0.1}, 0)
    assert (config.preset, config.learner.lr, config.learner.clip_low) == ("ragen-v2", 1e-6, 0.1)


def test_an_algorithm_goes_over_it() -> None:
    config = config_of("--preset", "ragen-v2", "--algorithm", "grpo")
    assert (config.credit.estimator, config.credit.filter, config.learner.lr) == ("grpo", "none", 1e-6)


@pytest.mark.parametrize("env", env_names())
@pytest.mark.parametrize("paper", PAPER_PRESETS)
def test_every_environment_has_its_own_task_or_the_papers(paper: str, env: str) -> None:
    config = build_config(paper_preset(paper, env))
    assert (config.rollout.num_groups, config.rollout.group_size) == (8, 16)
    if env in PAPER_ENVS:
        task, limits = preset(env, paper)
        assert config.env.task == task
        assert {name: getattr(config.env, name) for name in limits} == limits
    else:
        assert config.env == build_config(environment(env)).env


def test_a_game_keeps_its_seats() -> None:
    config = config_of("--env", "kuhn_poker", "--preset", "ragen-v2", "--set", "rollout.max_context_tokens=2000")
    assert config.multi_agent == config_of("--env", "kuhn_poker").multi_agent


def test_unknown_ones_are_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"preset: unknown 'ragen-v3'; did you mean ragen-v2\? allowed: ragen-v1"):
        config_of("--preset", "ragen-v3")


def test_the_page_tells_every_key_of_both_with_its_source() -> None:
    page = (TOP / "docs" / "papers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| (\S.*?) \| (\S.*?) \| (\S.*?) \|$", page, re.MULTILINE)
    told = {key: values for key, *values in rows}
    for index, paper in enumerate(PAPER_PRESETS):
        said = flatten(read_yaml(TOP / "tune_configs" / "presets" / f"{paper}.yaml"))
        assert said == {key: parse_yaml(told[key][index]) for key in said}
