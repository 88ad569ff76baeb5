"""Packages that some games need and the project does not: imported when such a game is made."""

from __future__ import annotations

import importlib
from typing import Any


def needed(module: str, package: str, game: str) -> Any:
    """Returns the module, imported now.

    Raises:
        ValueError: the package is not installed; names the extra that holds it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name != module.split(".")[0]:
            raise
        raise ValueError(f"the game {game} needs {package}: pip install 'rllib-ragen[games]'") from None
