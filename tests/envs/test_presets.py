"""Presets and registry: names, strictness, the papers' settings."""

from __future__ import annotations

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

import ragen_envs
from ragen_envs.bandit.env import BanditEnv
from ragen_envs.frozen_lake.env import FrozenLakeTask
from ragen_envs.presets import PAPER_ENVS, all_presets, preset, preset_names
from ragen_envs.registry import gym_id


def test_every_preset_makes_an_environment_that_starts() -> None:
    for name, _, (task, limits) in all_presets():
        env = ragen_envs.make_text_env(name, task, limits)
        assert env.reset(seed=0)[0]


@pytest.mark.parametrize("name", PAPER_ENVS)
def test_the_papers_environments_have_the_papers_caps(name: str) -> None:
    assert preset(name, "ragen-v1").limits == {"max_turns": 5, "max_actions_per_turn": 5, "max_actions": 10}
    assert preset(name, "ragen-v2").limits == {"max_turns": 5, "max_actions_per_turn": 2, "max_actions": 10}


def test_the_papers_task_settings_arrive_in_the_tasks() -> None:
    lake = ragen_envs.make_task("frozen_lake", **preset("frozen_lake", "ragen-v1").task)
    assert isinstance(lake, FrozenLakeTask)
    assert lake.success_rate == 1 / 3
    bandit = ragen_envs.make_task("bandit", **preset("bandit", "ragen-v1").task)
    assert isinstance(bandit, BanditEnv)
    assert bandit.low_reward == 0.15


def test_presets_are_fresh_copies() -> None:
    preset("sokoban", "8x8-2-boxes").task["height"] = 99
    assert preset("sokoban", "8x8-2-boxes").task["height"] == 8


@pytest.mark.parametrize(
    ("env", "name", "sentence"),
    [
        ("sokoban", "ragen-v3", r"unknown preset 'ragen-v3' of sokoban; allowed: default, .*; did you mean 'ragen-v"),
        ("sokobn", "default", r"unknown environment 'sokobn'; allowed: sokoban, .*; did you mean 'sokoban'"),
    ],
)
def test_unknown_names_get_one_sentence_with_the_nearest(env: str, name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        preset(env, name)


def test_gymnasium_ids_name_the_same_things() -> None:
    for name in ragen_envs.env_names():
        assert gym.spec(gym_id(name)) is not None
        assert preset_names(gym_id(name)) == preset_names(name)
        assert type(gym.make(gym_id(name)).unwrapped) is type(ragen_envs.make_task(name))


@pytest.mark.parametrize("name", ragen_envs.env_names())
def test_gymnasiums_own_checker_accepts_the_task(name: str) -> None:
    check_env(ragen_envs.make_task(name), skip_render_check=True)


@pytest.mark.parametrize("name", ragen_envs.env_names())
def test_unknown_settings_and_limits_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}: .*colour"):
        ragen_envs.make_task(name, colour="red")
    with pytest.raises(ValueError, match=r"unknown limit 'max_turn'; allowed: max_turns"):
        ragen_envs.make_text_env(name, limits={"max_turn": 3})
