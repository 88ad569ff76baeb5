"""Sweep files: what is refused, and with which sentence, before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import merge, read_yaml
from rllib_ragen.sweep.spec import SMOKE, read_sweep, save_sweep

SWEEPS = sorted((Path(__file__).parents[2] / "tune_configs" / "sweeps").glob("*.yaml"))
SMALL: dict[str, Any] = {
    "name": "small",
    "base": {"env": {"name": "bandit"}},
    "space": {"learner.lr": {"loguniform": [1e-5, 1e-3]}, "env.think": {"choice": [True, False]}},
}


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
@pytest.mark.parametrize("smoke", [False, True])
def test_every_shipped_sweep_is_valid_and_says_what_it_asks(path: Path, smoke: bool) -> None:
    spec = read_sweep(read_yaml(path), smoke=smoke)
    assert spec.name == path.stem and spec.question.endswith("?")
    assert not smoke or (spec.num_trials <= 2 and spec.config(spec.combinations()[0], 0).iterations == 2)


def test_the_shipped_sweeps_are_the_papers_questions() -> None:
    asked = {path.stem for path in SWEEPS}
    assert asked >= {"reasoning_length", "filter", "clip", "estimator", "lr_and_group_shape", "actions_per_turn"}


def test_values_become_a_run_config_over_preset_and_base() -> None:
    space = {"rollout.num_groups, rollout.group_size": {"choice": [[8, 16], [64, 2]]}, **SMALL["space"]}
    spec = read_sweep({**SMALL, "space": space})
    first = spec.combinations()[0]
    config = spec.config(first, seed=3)
    assert (config.rollout.num_groups, config.rollout.group_size) == (8, 16)
    assert (config.learner.lr, config.env.think, config.env.name, config.seed) == (1e-5, True, "bandit", 3)
    assert len(spec.combinations()) == 2 * 2 * 2


def test_a_sweep_may_be_over_several_environments_and_over_a_curriculum() -> None:
    envs = [{"name": "sokoban"}, {"name": "frozen_lake", "weight": 2}]
    spec = read_sweep({"name": "mix", "base": {"envs": envs}, "space": {"learner.lr": {"choice": [1e-4, 1e-3]}}})
    assert [entry.weight for entry in spec.config(spec.combinations()[0], 0).envs] == [1, 2]
    levels = {"levels": [{"task": {"size": 3}}, {}]}
    base = {"env": {"name": "frozen_lake", "curriculum": levels}}
    space = {"env.curriculum.raise_at": {"uniform": [0.5, 0.9]}}
    found = read_sweep({"name": "levels", "base": base, "space": space})
    curriculum = found.config(found.combinations()[0], 0).env.curriculum
    assert curriculum is not None and curriculum.raise_at == 0.5 and len(curriculum.levels) == 2
    with pytest.raises(ConfigError, match=r"unknown key 'envs\[0\].weight'"):
        read_sweep({"name": "mix", "base": {"envs": envs}, "space": {"envs[0].weight": {"choice": [1, 2]}}})


def test_a_saved_sweep_reads_back_the_same(tmp_path: Path) -> None:
    spec = read_sweep(SMALL, smoke=True)
    save_sweep(spec, tmp_path / "sweep.yaml")
    assert read_sweep(read_yaml(tmp_path / "sweep.yaml")) == spec
    assert spec.base == merge(SMALL["base"], SMOKE)


def test_ranges_and_choices_are_optunas() -> None:
    dimensions = read_sweep(SMALL).dimensions()
    assert dimensions["learner.lr"].distribution == FloatDistribution(1e-5, 1e-3, log=True)
    assert dimensions["env.think"].distribution == CategoricalDistribution([True, False])


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "empty space": ({"space": {}}, r"space: is empty"),
    "unknown key": ({"space": {"learner.lrr": {"choice": [1]}}}, r"unknown key 'learner.lrr'; did you mean learner.lr"),
    "unknown sweep key": ({"sampller": "tpe"}, r"sampller: unknown key; did you mean sampler"),
    "unknown kind": ({"space": {"learner.lr": {"normal": [0, 1]}}}, r"space.learner.lr: must be one of choice"),
    "ends the wrong way": ({"space": {"learner.lr": {"uniform": [1, 0.1]}}}, r"two numbers, the smaller first"),
    "log of zero": ({"space": {"learner.lr": {"loguniform": [0, 1]}}}, r"both > 0"),
    "value out of its range": (
        {"space": {"learner.lr": {"choice": [-1.0]}}},
        r"with learner.lr=-1.0: learner.lr: must",
    ),
    "values that do not fit": (
        {"space": {"rollout.group_size": {"choice": [1, 4]}}},
        r"with rollout.group_size=1: rollout.group_size=1 with credit.estimator",
    ),
    "twice": (
        {"space": {"learner.lr": {"choice": [1.0]}, "learner.lr, learner.clip_low": {"choice": [[1.0, 0.1]]}}},
        r"learner.lr is in two dimensions",
    ),
    "too few of a joint choice": (
        {"space": {"learner.clip_low, learner.clip_high": {"choice": [[0.1]]}}},
        r"each choice must be a list of 2 values",
    ),
    "grid of a range": ({"sampler": "grid"}, r"sampler=grid cannot enumerate space.learner.lr; allowed there: choice"),
    "cma-es of a choice": ({"sampler": "cmaes"}, r"sampler=cmaes cannot search space.env.think"),
    "scheduler of two objectives": (
        {"scheduler": "asha", "objectives": ["success", "reply_tokens"]},
        r"scheduler=asha compares one objective",
    ),
    "a seed twice": ({"seeds": [1, 1]}, r"seeds: \[1, 1\] holds one twice"),
    "no validation": ({"base": {"eval": {"interval": 0}}}, r"eval.interval=0: a sweep compares validations"),
}


@pytest.mark.parametrize(("change", "sentence"), BAD.values(), ids=BAD.keys())
def test_bad_sweeps_are_refused_in_one_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        read_sweep({**SMALL, **change})
    assert "\n" not in str(caught.value)
