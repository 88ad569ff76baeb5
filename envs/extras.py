"""Packages that some environments need and the project does not: imported when such an environment is made."""

from __future__ import annotations

import importlib
from typing import Any


def import_extra(module: str, package: str, extra: str, user: str) -> Any:
    """Returns the module, imported now.

    Args:
        module: what is imported.
        package: its name in the package index.
        extra: this project's extra that holds it.
        user: what needs it, for the message: `the game chess`.

    Raises:
        ValueError: the package is not installed; tells the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name != module.split(".")[0]:
            raise
        raise ValueError(f"{user} needs {package}: pip install 'rllib-ragen[{extra}]'") from None
