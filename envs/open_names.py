"""Names that users add to: shipped ones, registered ones, entry points of installed packages, and import paths.

The same rules hold for environments, estimators, filters, losses and rewards, wherever a name is read.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from typing import Generic, TypeVar

T = TypeVar("T")
_NAME = re.compile(r"\w[\w.+-]*")
_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class OpenNames(Generic[T]):
    """A registry of things of one kind, open to users.

    A name is looked up as an import path if it has a colon (`package.module:Thing`), else among the shipped names,
    those of `register`, and the entry points of installed packages. Shipped names cannot be taken by others. Nothing is
    imported before it is resolved, and then only what Python's import path already reaches.
    """

    def __init__(self, kind: str, group: str, shipped: Mapping[str, str], check: Callable[[object], T]) -> None:
        """
        Args:
            kind: the kind's name in messages: `estimator`.
            group: entry-point group of installed packages.
            shipped: name → import path.
            check: returns the thing itself if it is of this kind, else raises ValueError saying what it must be.
        """
        self.kind = kind
        self.group = group
        self._shipped = dict(shipped)
        self._check = check
        self._registered: dict[str, T] = {}

    def shipped(self) -> list[str]:
        """Returns the names that come with the package."""
        return list(self._shipped)

    def names(self) -> list[str]:
        """Returns all names known without an import path: shipped, registered, or from installed packages."""
        return list(dict.fromkeys([*self._shipped, *self._registered, *_entry_points(self.group)]))

    def knows(self, name: str) -> bool:
        """Returns whether `name` is one of `names` or looks like an import path. Imports nothing."""
        if ":" in name or name in self._shipped or name in self._registered:
            return True
        return name in _entry_points(self.group)

    def is_users(self, name: str) -> bool:
        """Returns whether `name` is known and not shipped."""
        return name not in self._shipped and self.knows(name)

    def register(self, name: str, thing: object) -> None:
        """Registers `thing` as `name`; a registered name may be given again, as notebooks do.

        Raises:
            ValueError: a shipped name, an invalid name, or a thing of another kind.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for one's own {self.kind}: allowed are letters, digits and _ . + -")
        if name in self._shipped:
            raise ValueError(f"{name!r} is the name of a shipped {self.kind}; give yours another one")
        self._registered[name] = self._checked(name, thing)

    def registered(self, name: str) -> T | None:
        """Returns the thing registered as `name`, or None."""
        return self._registered.get(name)

    def resolve(self, name: str, key: str = "") -> T:
        """Returns the thing that `name` means.

        Raises:
            ValueError: one sentence about the name, after the config key that has it, if `key` is given.
        """
        try:
            if name in self._registered:
                return self._registered[name]
            path = self._shipped.get(name) or self._path_of(name)
            return self._checked(name, load(path))
        except ValueError as error:
            if not key:
                raise
            raise ValueError(f"{key}: {error}") from error

    def verify(self, name: str, key: str = "") -> None:
        """Raises ValueError, as `resolve` does, for an unknown `name`. Shipped things are not imported for it."""
        if name not in self._shipped:
            self.resolve(name, key)

    def _path_of(self, name: str) -> str:
        if ":" in name:
            return name
        found = _entry_points(self.group).get(name, ())
        if len(found) > 1:
            raise ValueError(f"{name!r} is offered by several installed packages; give one of {', '.join(found)}")
        if found:
            return found[0]
        near = difflib.get_close_matches(name, self.names(), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"unknown {self.kind} {name!r}; allowed: {', '.join(self.names())}, or an import path package.module:Name"
            f"{hint}"
        )

    def _checked(self, name: str, thing: object) -> T:
        try:
            return self._check(thing)
        except ValueError as error:
            raise ValueError(f"{name!r} is no {self.kind}: {error}") from None


def load(path: str) -> object:
    """Imports what the path `package.module:Name` names.

    Raises:
        ValueError: no such module or name, or the module raises when it is imported; one sentence.
    """
    if not _IMPORT_PATH.fullmatch(path):
        raise ValueError(f"{path!r} is no import path: must look like package.module:Name")
    module_name, _, attributes = path.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(f"{path!r} cannot be imported: {_why(module_name, error)}") from error
    reached = f"module {module_name}"
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            near = difflib.get_close_matches(attribute, [name for name in dir(found) if name[:1] != "_"], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{path!r} cannot be imported: {reached} has no {attribute!r}{hint}")
        found = getattr(found, attribute)
        reached = f"{reached}'s {attribute}"
    return found


def _why(module: str, error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        return f"there is no module {error.name!r} among the installed packages, on PYTHONPATH or in the current folder"
    return f"importing {module} raises {type(error).__name__}: {' '.join(str(error).split())}"


def check_function(thing: object, argument: str) -> Callable[..., object]:
    """Returns `thing` if it is a function that can be called with one argument.

    Raises:
        ValueError: it is not; the sentence names the argument.
    """
    wanted = f"must be a function of one argument ({argument})"
    if isinstance(thing, type) or not callable(thing):
        raise ValueError(f"{wanted}, not {thing!r}")
    try:
        inspect.signature(thing).bind(None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}: {error}") from None
    return thing


@cache
def _entry_points(group: str) -> dict[str, tuple[str, ...]]:
    """Returns the import paths that installed packages give each name; several if they differ."""
    found: dict[str, dict[str, None]] = {}
    for point in metadata.entry_points(group=group):
        found.setdefault(point.name, {})[point.value] = None
    return {name: tuple(paths) for name, paths in found.items()}
