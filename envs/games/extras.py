"""Packages that some games need and the project does not: imported when such a game is made."""

from __future__ import annotations

from typing import Any

from ragen_envs.extras import import_extra


def needed(module: str, package: str, game: str) -> Any:
    """Returns the module, imported now.

    Raises:
        ValueError: the package is not installed; names the extra that holds it.
    """
    return import_extra(module, package, "games", f"the game {game}")
