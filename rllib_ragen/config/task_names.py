"""What `env.name` may be: this project's text environments, and its games for several seats. Imports nothing heavy."""

from __future__ import annotations

import difflib

from ragen_envs.games.registry import game_names
from ragen_envs.registry import check_env_name, env_names, gym_id


def game_name(name: str) -> str | None:
    """The game that `name` means: `tictactoe`, `TicTacToe`, `ragen/TicTacToe-v0` → `tic_tac_toe`; None: no game."""
    by_letters = {_letters(game): game for game in game_names()}
    return by_letters.get(_letters(name.removeprefix("ragen/").removesuffix("-v0")))


def task_name(name: str) -> str:
    """The short name that `name` means: `ragen/Sokoban-v0` → `sokoban`, `TicTacToe`, `tictactoe` → `tic_tac_toe`.

    Raises:
        ValueError: neither an environment nor a game; names the nearest.
    """
    game = game_name(name)
    if game is not None:
        return game
    try:
        return check_env_name(name)
    except ValueError:
        near = difflib.get_close_matches(name, [*env_names(), *game_names()], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"unknown environment {name!r}; allowed: {', '.join(env_names())};"
            f" and the games {', '.join(game_names())}{hint}"
        ) from None


def task_ids() -> dict[str, str]:
    """RLlib id (`ragen/TicTacToe-v0`) of every environment and game → its short name."""
    return {gym_id(name): name for name in (*env_names(), *game_names())}


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
