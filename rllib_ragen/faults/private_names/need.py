"""Access to private names, with an error that names a missing one."""

from __future__ import annotations

from importlib import metadata
from typing import Any


class NameGone(RuntimeError):
    """A library is installed in a version without a private name that this package uses."""


def need(owner: object, name: str, library: str) -> Any:
    """Returns `owner.name`.

    Raises:
        NameGone: it does not exist; the sentence names it, the library and its version.
    """
    try:
        return getattr(owner, name)
    except AttributeError:
        kind = owner if isinstance(owner, type) else type(owner)
        raise NameGone(
            f"{library} {metadata.version(library)}: {kind.__module__}.{kind.__qualname__} has no {name!r} any more;"
            " rllib_ragen/faults/private_names must find another way"
        ) from None
