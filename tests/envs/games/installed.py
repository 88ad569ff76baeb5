"""The games whose packages are installed, and settings under which each is short."""

from __future__ import annotations

import warnings
from typing import Any

from ragen_envs.games import game_names, make_game

SHORT: dict[str, dict[str, Any]] = {
    "chess": {"max_moves": 12},
    "bargaining": {"max_turns": 4},
    "hanabi": {"variant": "very_small"},
}


def installed_games() -> list[str]:
    """All games, or those of them that need no missing package; says which are left out."""
    found = []
    for name in game_names():
        try:
            make_game(name)
            found.append(name)
        except ValueError as error:
            warnings.warn(f"NOT TESTED: {error}", stacklevel=2)
    return found
