"""Games by name."""

from __future__ import annotations

import difflib
import inspect

from ragen_envs.games.env import TextGameEnv
from ragen_envs.games.game import TextGame
from ragen_envs.games.limits import GameLimits
from ragen_envs.text import check_limit_names
from ragen_envs.tree import Tree
from ragen_envs.worlds import ENVIRONMENTS, GAMES, construct


def game_names() -> list[str]:
    """Returns the names of the games that ship with the package."""
    return list(GAMES)


def is_users_game(name: str) -> bool:
    """Returns whether `name` means a user's own game: a registered name, an entry point or an import path."""
    if not ENVIRONMENTS.is_users(name):
        return False
    try:
        return issubclass(ENVIRONMENTS.resolve(name), TextGame)
    except ValueError:
        return False


def game_settings(name: str) -> list[str]:
    """Returns the names of the settings of game `name`. Raises ValueError naming the nearest game."""
    return list(inspect.signature(_game_class(name)).parameters)


def make_game(name: str, **settings: object) -> TextGame:
    """Returns the game `name`. Raises ValueError for an unknown name or setting."""
    game_class = _game_class(name)
    if name not in GAMES:
        game = construct(name, game_class, settings)
        assert isinstance(game, TextGame)
        return game
    allowed = game_settings(name)
    for key in settings:
        if key not in allowed:
            raise ValueError(f"{name} has no setting {key!r}; allowed: {', '.join(allowed) or 'none'}")
    return game_class(**settings)


def _game_class(name: str) -> type[TextGame]:
    if name not in GAMES and not ENVIRONMENTS.is_users(name):
        near = difflib.get_close_matches(name, GAMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        allowed = f"{', '.join(GAMES)}, or an import path package.module:Game"
        raise ValueError(f"unknown game {name!r}; allowed: {allowed}{hint}")
    world = ENVIRONMENTS.resolve(name)
    if not issubclass(world, TextGame):
        raise ValueError(f"{name!r} is an environment for one agent; wanted is a game for several seats")
    return world


def make_text_game(name: str, game: Tree | None = None, limits: Tree | None = None) -> TextGameEnv:
    """Returns the text environment of game `name`.

    Args:
        name: one of game_names(), a name that was registered, or an import path `package.module:Game`.
        game: settings of the game.
        limits: fields of GameLimits.

    Raises:
        ValueError: unknown name or setting.
    """
    check_limit_names(GameLimits, limits or {})
    return TextGameEnv(make_game(name, **(game or {})), GameLimits(**(limits or {})))
