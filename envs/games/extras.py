"""Optional packages of some games, imported when such a game is made."""

from __future__ import annotations

from typing import Any

from ragen_envs.extras import import_extra


def needed(module: str, package: str, game: str) -> Any:
    """Imports a module of an optional package.

    Raises:
        ValueError: the package is not installed; the message names the extra that has it.
    """
    return import_extra(module, package, "games", f"the game {game}")
