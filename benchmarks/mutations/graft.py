"""Applies a changed module in a process that has imported the module, its users and its tests."""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection
from types import CodeType, FunctionType, ModuleType
from typing import Any

_OURS = ("rllib_ragen", "ragen_envs", "tests", "benchmarks")


def graft(module: ModuleType, code: CodeType, names: Collection[str]) -> None:
    """Runs `code` beside `module`, and replaces the code of functions and methods and the constants of these names.

    Functions and classes stay the objects that others have imported, so nothing needs to be imported again: that takes
    milliseconds, a new process ten seconds.
    """
    changed: dict[str, Any] = {
        "__name__": module.__name__,
        "__file__": module.__file__,
        "__package__": module.__package__,
    }
    exec(code, changed)
    new_ones = {name: changed[name] for name in names}
    # What is not changed stays one thing, whoever asks for it.
    changed.update({name: value for name, value in vars(module).items() if name not in names})
    for name, new in new_ones.items():
        old = vars(module).get(name)
        if _graft(old, new):
            changed[name] = old
        elif not _equal(old, new):
            for other in {module, *(one for one_name, one in sys.modules.items() if one_name.startswith(_OURS))}:
                if name in vars(other) and vars(other)[name] is old:
                    setattr(other, name, new)


def _graft(old: Any, new: Any) -> bool:
    """Gives the function or class `old` the code of `new` → False for anything else."""
    old, new = _plain(old), _plain(new)
    if isinstance(old, FunctionType) and isinstance(new, FunctionType):
        if len(old.__code__.co_freevars) != len(new.__code__.co_freevars):
            return False
        if old.__code__ != new.__code__:
            old.__code__ = new.__code__
        if not _equal((old.__defaults__, old.__kwdefaults__), (new.__defaults__, new.__kwdefaults__)):
            old.__defaults__, old.__kwdefaults__ = new.__defaults__, new.__kwdefaults__
        return True
    if not (isinstance(old, type) and isinstance(new, type)) or old.__module__ != new.__module__:
        return False
    for name, value in vars(new).items():
        own = vars(old).get(name)
        # Of what begins so, the methods alone are the author's. One that no longer calls super() is another function.
        made_by_python = name.startswith(("__", "_abc_")) and not isinstance(value, FunctionType)
        if not _graft(own, value) and not made_by_python and not _equal(own, value):
            setattr(old, name, value)
    return True


def _plain(value: Any) -> Any:
    """Returns the function inside a method, property or cache."""
    if isinstance(value, (classmethod, staticmethod)):
        return value.__func__
    if isinstance(value, property):
        return value.fget
    if isinstance(value, functools._lru_cache_wrapper):
        return value.__wrapped__
    return value


def _equal(left: Any, right: Any) -> bool:
    try:
        return left is right or (type(left) is type(right) and bool(left == right))
    except (TypeError, ValueError):
        return False
