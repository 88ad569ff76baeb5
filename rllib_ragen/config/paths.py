"""Reading and writing of paths in configs: from YAML, command line, Python and sweep files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rllib_ragen.config.errors import ConfigError

EMBEDDED_MODEL = "tiny"
"""Value of `model.path` for the model that ships with the package."""
PATH_KEYS = ("model.path", "results_dir")
"""Config keys whose values are paths."""
_TUNE_STARTED_IN = "TUNE_ORIG_WORKING_DIR"
"""Environment variable in which Tune keeps the folder that its driver was started in, unlike a trial's own folder."""


def enter_path(given: str | Path, folder: str | Path | None = None) -> Path:
    """Returns `given` as an absolute path: `~` expanded, a relative one taken from `folder`.

    Args:
        given: the path as it was written.
        folder: folder of the file that holds it; None: the working directory, as on a command line.

    Raises:
        ConfigError: an empty path, `~name` of nobody, a NUL, or bytes that are no UTF-8 (no YAML file could hold them).
    """
    if not str(given).isprintable() and ("\0" in str(given) or _is_no_unicode(str(given))):
        raise ConfigError(f"{str(given)!r} is no path: it holds a NUL, or bytes that are not UTF-8")
    if not str(given):
        raise ConfigError("'' is no path; the folder that one is in is '.'")
    try:
        expanded = Path(given).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{str(given)!r}: {error}") from None
    base = os.environ.get(_TUNE_STARTED_IN) or Path.cwd() if folder is None else enter_path(folder)
    return Path(os.path.abspath(base / expanded))


def enter_model(given: str, folder: str | Path | None = None) -> str:
    """Returns `model.path`: `tiny` stays a name, anything else is a path (`./tiny` a folder of that name)."""
    return given if given == EMBEDDED_MODEL else str(enter_path(given, folder))


def enter_paths(tree: Mapping[str, object], folder: str | Path) -> dict[str, Any]:
    """Returns the nested mapping of a config file in `folder` with absolute paths; values that are not text stay."""
    entered = dict(tree)
    for key in PATH_KEYS:
        section, _, name = key.rpartition(".")
        holder = entered.get(section) if section else entered
        if isinstance(holder, Mapping) and isinstance(given := holder.get(name), (str, Path)):
            absolute = enter_model(str(given), folder) if key == "model.path" else str(enter_path(given, folder))
            changed = {**holder, name: absolute}
            entered = {**entered, section: changed} if section else changed
    return entered


def leave_path(path: str | Path, folder: Path, root: Path) -> str:
    """Returns `path` as a file in `folder` should hold it: relative if that stays right when `root` is moved, else
    absolute.

    Paths below `root` are relative, and so is the path to `root` itself.

    Raises:
        ConfigError: see `enter_path`.
    """
    absolute = enter_path(path)
    moves_along = absolute.is_relative_to(root) or absolute == root.parent
    return os.path.relpath(absolute, folder) if moves_along else str(absolute)


def leave_paths(tree: Mapping[str, object], folder: Path, root: Path) -> dict[str, Any]:
    """Inverts `enter_paths`, for a file in `folder` inside the folder `root`, which may be moved."""
    left = dict(tree)
    for key in PATH_KEYS:
        section, _, name = key.rpartition(".")
        holder = left.get(section) if section else left
        given = holder.get(name) if isinstance(holder, Mapping) else None
        if isinstance(holder, Mapping) and isinstance(given, str) and given != EMBEDDED_MODEL:
            changed = {**holder, name: leave_path(given, folder, root)}
            left = {**left, section: changed} if section else changed
    return left


def _is_no_unicode(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
