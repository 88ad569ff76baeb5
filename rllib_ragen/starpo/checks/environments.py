"""What is said of a run's environments: of one, of each among several, and of the levels of a curriculum."""

from __future__ import annotations

import re
from dataclasses import asdict

from ragen_envs.registry import make_text_env
from rllib_ragen.config.environments import World, alone, label_of, worlds
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name, task_name
from rllib_ragen.diagnostics.metrics import INTRODUCTIONS, NO_HEADING
from rllib_ragen.starpo.checks.games import check_game
from rllib_ragen.starpo.checks.prompts import check_prompts

_TAKEN = (*INTRODUCTIONS, NO_HEADING, "trajectory", "regime")
"""Headings in TensorBoard that are the whole run's."""
_LEVEL = re.compile(r"level_\d+|(?:train|val|test)(?:_sampled|_greedy)?")
_ENV_KEY = re.compile(r"(?<![\w.\]])env\.(?=[a-z])")


def check_env(config: RunConfig) -> None:
    """Checks the environment of a run that has one.

    Raises:
        ConfigError: an unknown name, or settings that make no task.
    """
    try:
        task_name(config.env.name)
    except ValueError as error:
        raise ConfigError(f"env.name: {error}") from None
    if config.env.curriculum is not None:
        _check_curriculum(config)
    check_prompts(config)
    if check_game(config):
        return
    (world,) = worlds(config)
    if world.curriculum is None:
        _check_task(config)
    else:
        _check_levels(config, world)


def check_entries(config: RunConfig) -> None:
    """Checks each of several environments as if it were alone, and their labels.

    Raises:
        ConfigError: what is wrong with one of them, by its key `envs[1].…`.
    """
    labels: list[str] = []
    for number, entry in enumerate(config.envs):
        where, label = f"envs[{number}]", label_of(entry)
        if game_name(entry.name) is not None:
            raise ConfigError(
                f"{where}.name={entry.name} is a game for several seats, and a game is a run of its own: it has"
                " policies, opponents and a small model that other environments have not; allowed are environments for"
                " one agent"
            )
        if label in _TAKEN or _LEVEL.fullmatch(label):
            raise ConfigError(f"{where}.label={label} is a heading of the run's own metrics; give another label")
        if label in labels:
            raise ConfigError(
                f"{where}.label: envs[{labels.index(label)}] is called {label}, too; give them different labels"
            )
        labels.append(label)
        try:
            check_env(alone(config, entry))
        except ConfigError as error:
            raise ConfigError(told_of(where, str(error))) from None


def told_of(where: str, sentence: str) -> str:
    """Returns `sentence`, which speaks of `env.…`, about the environment at `where`: `envs[1]`."""
    return _ENV_KEY.sub(f"{where}.", sentence)


def _check_task(config: RunConfig) -> None:
    try:
        make_text_env(config.env.name, config.env.task, asdict(config.text_limits())).close()
    except (ValueError, TypeError) as error:
        raise ConfigError(f"env.task: {error}") from None


def _check_curriculum(config: RunConfig) -> None:
    section, game = config.env.curriculum, game_name(config.env.name)
    assert section is not None
    if game is not None:
        raise ConfigError(
            f"env.curriculum with env.name={game}: what makes a game harder is who sits opposite; allowed: null, and"
            " multi_agent.mode=league, in which opponents get better with the policy"
        )
    if not section.low < section.high:
        raise ConfigError(
            f"env.curriculum.low={section.low:g} must be below env.curriculum.high={section.high:g}: between them a"
            " level is worth most"
        )
    if section.raise_at > section.high:
        raise ConfigError(
            f"env.curriculum.raise_at={section.raise_at:g} must not be above env.curriculum.high={section.high:g}, from"
            " which on a level is hardly played"
        )


def _check_levels(config: RunConfig, world: World) -> None:
    for number, level in enumerate(world.levels):
        try:
            _check_task(level)
        except ConfigError as error:
            raise ConfigError(
                str(error).replace("env.task:", f"env.curriculum.levels[{number}], over env.task:", 1)
            ) from None
