"""Optional packages of some environments, imported when such an environment is made."""

from __future__ import annotations

import importlib
from typing import Any


def import_extra(module: str, package: str, extra: str, user: str) -> Any:
    """Imports a module of an optional package.

    Args:
        module: name of the module.
        package: its name in the package index.
        extra: this project's extra that holds it.
        user: who needs it, for the message: `the game chess`.

    Raises:
        ValueError: the package is not installed; the message has the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if error.name != module.split(".")[0]:
            raise
        raise ValueError(f"{user} needs {package}: pip install 'rllib-ragen[{extra}]'") from None
