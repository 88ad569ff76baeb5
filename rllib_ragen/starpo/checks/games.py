"""Checks of combinations of keys for games, and for tasks that are not games."""

from __future__ import annotations

from dataclasses import asdict

from ragen_envs.games.game import TextGame
from ragen_envs.games.players import PLAYERS
from ragen_envs.games.registry import make_text_game
from ragen_envs.splits import Split
from rllib_ragen.config.errors import ConfigError, nearest
from rllib_ragen.config.schema import EnvSection, MultiAgentSection, RunConfig
from rllib_ragen.config.task_names import game_name

_NOT_OF_GAMES = ("max_actions_per_turn", "max_actions")


def check_game(config: RunConfig) -> bool:
    """Checks the keys of games → whether the task is a game.

    Raises:
        ConfigError: keys that do not fit together.
    """
    game, section = game_name(config.env.name), config.multi_agent
    if game is None:
        check_no_game(config)
        return False
    for key in _NOT_OF_GAMES:
        if getattr(config.env, key) != EnvSection.model_fields[key].default:
            raise ConfigError(
                f"env.{key}={getattr(config.env, key)} with env.name={game}: a reply in a game names exactly one"
                f" action; allowed: {EnvSection.model_fields[key].default} (not used)"
            )
    try:
        env = make_text_game(game, config.env.task, asdict(config.game_limits()))
    except (ValueError, TypeError) as error:
        raise ConfigError(f"env.task: {error}") from None
    if section.opponent not in PLAYERS:
        raise ConfigError(
            f"multi_agent.opponent: unknown {section.opponent!r}; {nearest(section.opponent, [*PLAYERS])}"
        )
    _check_script(env.game, section)
    check_groups_are_drawn_one_by_one(config)
    return True


def check_groups_are_drawn_one_by_one(config: RunConfig) -> None:
    """Refuses settings that environments with several agents do not support.

    Raises:
        ConfigError: such a setting.
    """
    if config.credit.dynamic_sampling_rounds:
        raise ConfigError(
            f"credit.dynamic_sampling_rounds={config.credit.dynamic_sampling_rounds} with env.name={config.env.name}:"
            " one game makes a group for each of its roles, so groups cannot be drawn one by one; allowed: 0"
        )


def check_no_game(config: RunConfig) -> None:
    """Refuses settings of seats, which only games have.

    Raises:
        ConfigError: such a setting.
    """
    for key, value in config.multi_agent.model_dump().items():
        if value != MultiAgentSection.model_fields[key].default:
            raise ConfigError(
                f"multi_agent.{key}={value} with env.name={config.env.name}, which is no game; allowed: a game as"
                " env.name (docs/games.md)"
            )


def _check_script(game: TextGame, section: MultiAgentSection) -> None:
    """Checks that a scripted player was written for the game."""
    if section.mode == "against" and not plays(section.opponent, game):
        able = [name for name in PLAYERS if plays(name, game)]
        raise ConfigError(
            f"multi_agent.opponent={section.opponent} cannot play {game.title}; allowed: {', '.join(able)}"
        )


def plays(player: str, game: TextGame) -> bool:
    """Returns whether the scripted player finds a legal first move in `game`, which is restarted."""
    game.reset(0, Split.TRAIN, 0)
    seat = game.to_move[0]
    try:
        return set(PLAYERS[player](game, seat)) <= set(game.legal_actions(seat))
    except (AssertionError, ValueError, KeyError, IndexError, AttributeError):
        return False
