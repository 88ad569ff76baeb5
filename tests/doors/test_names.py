"""One resolver for what users add: the same three doors, and the same sentences, for every kind."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragen_envs import make_text_env, open_names
from ragen_envs.games import make_text_game
from ragen_envs.open_names import OpenNames
from ragen_envs.worlds import ENVIRONMENTS
from rllib_ragen import register_estimator, register_filter, register_loss, register_reward, register_text_env
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import preset
from rllib_ragen.config.schema import CreditSection, RunConfig
from rllib_ragen.config.task_names import game_name, is_task_name, name_of_id, task_id, task_name, task_word
from rllib_ragen.credit.estimator import Credit, Estimator
from rllib_ragen.credit.filter_rules import FILTERS
from rllib_ragen.credit.registry import ESTIMATORS, make_estimator
from rllib_ragen.credit.rewards.registry import REWARDS
from rllib_ragen.learner.losses.registry import LOSSES
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.types import FloatArray, Trajectory
from tests.doors.build import ESTIMATOR, FILTER, GAME, LOSS, REWARD, WORLD, write_distribution

KINDS: dict[str, tuple[OpenNames[Any], str, str]] = {
    "env.name": (ENVIRONMENTS, WORLD, "rllib_ragen.envs"),
    "credit.estimator": (ESTIMATORS, ESTIMATOR, "rllib_ragen.estimators"),
    "credit.filter": (FILTERS, FILTER, "rllib_ragen.filters"),
    "learner.loss": (LOSSES, LOSS, "rllib_ragen.losses"),
    "rewards": (REWARDS, REWARD, "rllib_ragen.rewards"),
}
REGISTER: dict[str, Callable[[str, Any], None]] = {
    "env.name": register_text_env,
    "credit.estimator": register_estimator,
    "credit.filter": register_filter,
    "learner.loss": register_loss,
    "rewards": register_reward,
}


def config_with(key: str, name: str) -> RunConfig:
    if key == "rewards":
        return build_config({key: name})
    section, _, last = key.partition(".")
    base = preset(name) if key == "env.name" else {}
    return build_config(base, {section: {last: name}})


@pytest.mark.parametrize("key", KINDS)
def test_an_import_path_is_a_name(key: str, folder: Path) -> None:
    known, path, _ = KINDS[key]
    module, _, attribute = path.partition(":")
    assert known.resolve(path) is getattr(importlib.import_module(module), attribute)
    config_with(key, path)


@pytest.mark.parametrize("key", KINDS)
def test_what_was_registered_is_a_name_and_may_be_registered_anew(key: str, folder: Path) -> None:
    known, path, _ = KINDS[key]
    first, second = known.resolve(path), known.resolve(path)
    REGISTER[key]("mine", first)
    REGISTER[key]("mine", second)
    assert known.resolve("mine") is second
    assert "mine" in known.names()
    config_with(key, "mine")


@pytest.mark.parametrize("key", KINDS)
def test_an_entry_point_of_an_installed_package_is_a_name(key: str, folder: Path) -> None:
    known, path, group = KINDS[key]
    write_distribution(folder, "theirs", **{group.replace(".", "__"): f"theirs = {path}"})
    open_names._entry_points.cache_clear()
    assert known.resolve("theirs") is known.resolve(path)
    config_with(key, "theirs")
    write_distribution(folder, "others", **{group.replace(".", "__"): "theirs = my_pkg.none:number"})
    open_names._entry_points.cache_clear()
    with pytest.raises(ConfigError, match=rf"{key}: 'theirs' is offered by several installed packages; give one of"):
        config_with(key, "theirs")


@pytest.mark.parametrize("key", KINDS)
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere.worlds:X", "there is no module 'nowhere' among the installed packages"),
        ("my_pkg.nowhere:X", "there is no module 'my_pkg.nowhere' among the installed packages"),
        ("my_pkg.broken:X", "importing my_pkg.broken raises RuntimeError: no licence found$"),
        ("my_pkg.lacks:X", "importing my_pkg.lacks raises ModuleNotFoundError: .*a_package_that_nobody_has"),
        ("my_pkg.worlds:TreasureHumt", "has no 'TreasureHumt'; did you mean 'TreasureHunt'"),
        ("my_pkg.none:number", r"'my_pkg.none:number' is no \w+: must be a "),
        ("my pkg:X", "is no import path: must look like package.module:Name"),
        ("a:b:c", "is no import path"),
        (":X", "is no import path"),
        ("my_pkg.worlds:", "is no import path"),
        ("../my_pkg:X", "is no import path"),
    ],
)
def test_a_wrong_path_is_one_sentence_with_its_key(key: str, name: str, says: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        config_with(key, name)
    assert str(caught.value).startswith(f"{key}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "name", "says"),
    [
        ("env.name", "my_pkg.none:HalfATask", "lacks .*describe.*reset, solve|lacks .*step"),
        ("env.name", "my_pkg.credit:MedianBaseline", "must be a class derived from TextTask or TextGame"),
        ("credit.estimator", "my_pkg.none:HalfAnEstimator", "the class HalfAnEstimator lacks assign"),
        ("credit.estimator", "my_pkg.none:WantsBeta", "needs 'beta', which is no key of credit and has no default"),
        ("credit.estimator", "my_pkg.worlds:TreasureHunt", "must be a class derived from Estimator"),
        ("credit.filter", "my_pkg.none:of_two", r"must be a function of one argument \(GroupRanking\)"),
        ("learner.loss", "my_pkg.none:of_two", r"must be a function of one argument \(PolicyTokens\)"),
        ("rewards", "my_pkg.none:of_two", r"must be a function whose first parameter is called turn or trajectory or"),
        ("rewards", "my_pkg.worlds:TreasureHunt", r"must be a function whose first parameter is called turn"),
    ],
)
def test_a_thing_of_another_kind_is_refused(key: str, name: str, says: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        config_with(key, name)


@pytest.mark.parametrize("key", KINDS)
def test_shipped_names_cannot_be_taken(key: str, folder: Path) -> None:
    known, path, group = KINDS[key]
    shipped = known.shipped()[0]
    with pytest.raises(ValueError, match="is the name of a shipped"):
        REGISTER[key](shipped, known.resolve(path))
    write_distribution(folder, "taker", **{group.replace(".", "__"): f"{shipped} = {path}"})
    open_names._entry_points.cache_clear()
    assert known.resolve(shipped) is not known.resolve(path)
    with pytest.raises(ValueError, match="is no name for one's own"):
        REGISTER[key]("my:own", known.resolve(path))


@pytest.mark.parametrize("key", KINDS)
def test_what_ships_is_there_by_its_name(key: str) -> None:
    known = KINDS[key][0]
    for name in known.shipped():
        known.resolve(name)


def test_an_estimator_gets_the_keys_that_its_constructor_names() -> None:
    made = make_estimator(CreditSection(estimator="gae", gamma=0.5, lam=0.25, turn_rewards=False))
    assert vars(made) == vars(type(made)(gamma=0.5, lam=0.25, turn_rewards=False))  # type: ignore[call-arg]


class WithAHabit(Estimator):
    """Takes a key of credit, a number that is none, and whatever comes."""

    def __init__(self, gamma: float, habit: float = 0.5, *rest: float, **more: float) -> None:
        self.given = (gamma, habit, rest, more)

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Returns nothing."""
        return []


def test_an_estimators_own_parameters_keep_their_defaults(folder: Path) -> None:
    register_estimator("habitual", WithAHabit)
    made = make_estimator(CreditSection(estimator="habitual", gamma=0.25))
    assert isinstance(made, WithAHabit) and made.given == (0.25, 0.5, (), {})


def test_a_world_of_ones_own_is_told_and_limited_as_any(folder: Path) -> None:
    env = make_text_env(WORLD, {"fields": 5}, {"max_turns": 2, "prompt_style": "full"})
    message, _ = env.reset(seed=3, options={"split": "val"})
    assert "a strip of 5 fields" in env.system_prompt and "You have 2 turn(s)" in env.system_prompt
    assert "You are on field" in message
    way = env.task.solve()
    assert way is not None
    *_, info = env.step(f"<think>go</think><answer>{' || '.join(way)}</answer>")
    assert info["success"] and info["actions"] == way
    game = make_text_game(GAME, {"rounds": 1})
    game.reset(seed=0)
    step = game.step(dict.fromkeys(game.to_act, "<think></think><answer>Heads</answer>"))
    assert step.rewards == {"player_0": 1.0, "player_1": 1.0}


@pytest.mark.parametrize(
    ("name", "task", "says"),
    [
        (WORLD, {"felds": 5}, "env.task: my_pkg.worlds:TreasureHunt: unknown setting 'felds'; allowed: fields"),
        (WORLD, {"fields": 2}, "env.task: my_pkg.worlds:TreasureHunt: fields must be ≥ 3, got 2"),
        (WORLD, {"fields": "x"}, "env.task: my_pkg.worlds:TreasureHunt: TypeError: "),
        (GAME, {"round": 2}, "env.task: my_pkg.worlds:Pennies: unknown setting 'round'; allowed: rounds"),
        (GAME, {"rounds": 0}, "env.task: my_pkg.worlds:Pennies: rounds must be ≥ 1, got 0"),
    ],
)
def test_settings_are_checked_against_the_constructor(name: str, task: dict[str, Any], says: str, folder: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        build_config(preset(name), {"env": {"task": task}})
    with pytest.raises(ConfigError, match="unknown key"):
        build_config(preset(name), {"env": {"max_turn": 3}})


def test_a_users_name_is_told_apart_from_shipped_ones_and_rllibs(folder: Path) -> None:
    assert (task_name(WORLD), game_name(WORLD), game_name(GAME)) == (WORLD, None, GAME)
    assert (task_word(WORLD), task_word("ragen/TicTacToe-v0")) == ("TreasureHunt", "tic_tac_toe")
    assert name_of_id(task_id(WORLD)) == WORLD
    assert name_of_id("ragen/Sokoban-v0") == "sokoban" and name_of_id("CartPole-v1") is None
    assert is_task_name("TicTacToe") and is_task_name(WORLD) and not is_task_name("CartPole-v1")
