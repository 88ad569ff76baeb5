"""A game's name, however it is written."""

from __future__ import annotations

from envs.games.registry import game_names


def game_name(name: str) -> str | None:
    """The game that `name` means: `tictactoe`, `TicTacToe`, `ragen/TicTacToe-v0` → `tic_tac_toe`; None: no game."""
    by_letters = {_letters(game): game for game in game_names()}
    return by_letters.get(_letters(name.removeprefix("ragen/").removesuffix("-v0")))


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
