"""Values of `env.name`: text environments and games for several seats, shipped or users' own. Imports nothing heavy."""

from __future__ import annotations

import re

from ragen_envs.games.registry import game_names, is_users_game
from ragen_envs.registry import check_env_name, env_names, gym_id
from ragen_envs.worlds import ENVIRONMENTS

_USERS = "ragen/"
"""Prefix of the RLlib ids of users' environments, before the unchanged name."""


def shipped_game_name(name: str) -> str | None:
    """Returns the shipped game that `name` means: `tictactoe`, `TicTacToe`, `ragen/TicTacToe-v0` → `tic_tac_toe`."""
    by_letters = {_letters(game): game for game in game_names()}
    return None if ":" in name else by_letters.get(_letters(name.removeprefix("ragen/").removesuffix("-v0")))


def is_shipped(name: str) -> bool:
    """Returns whether `name` is an environment or game of the package, in any of its spellings. Imports nothing."""
    return name in (*env_names(), *map(gym_id, env_names())) or shipped_game_name(name) is not None


def game_name(name: str) -> str | None:
    """Returns the game that `name` means, shipped or a user's; None if it is not a game."""
    return shipped_game_name(name) or (name if is_users_game(name) else None)


def task_name(name: str) -> str:
    """Returns the short name that `name` means: `ragen/Sokoban-v0` → `sokoban`, `TicTacToe`, `tictactoe` →
    `tic_tac_toe`.

    Raises:
        ValueError: neither an environment nor a game, or an import path without a target; one sentence.
    """
    return game_name(name) or check_env_name(name)


def task_word(name: str) -> str:
    """Returns the environment's name for use in file names: `my_pkg.worlds:TreasureHunt` → `TreasureHunt`."""
    return re.sub(r"[^\w.-]", "_", task_name(name).rpartition(":")[2])


def task_id(name: str) -> str:
    """Returns RLlib's id of an environment: `sokoban` → `ragen/Sokoban-v0`, `my_pkg:Hunt` → `ragen/my_pkg:Hunt`."""
    short = task_name(name)
    return _USERS + short if ENVIRONMENTS.is_users(short) else gym_id(short)


def name_of_id(env_id: str) -> str | None:
    """Returns the name of the environment with the RLlib id `env_id`; None for a foreign one. Imports nothing."""
    shipped = {gym_id(name): name for name in (*env_names(), *game_names())}
    if env_id in shipped:
        return shipped[env_id]
    name = env_id.removeprefix(_USERS)
    return name if name != env_id and ENVIRONMENTS.is_users(name) else None


def is_task_name(name: str) -> bool:
    """Returns whether `name` is an environment or game of this registry, in any of its spellings. Imports nothing."""
    return name_of_id(name) is not None or shipped_game_name(name) is not None or ENVIRONMENTS.knows(name)


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
