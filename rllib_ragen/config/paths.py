"""Reading and writing of paths in configs: from YAML, command line, Python and sweep files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.hub_models import HUB_MODELS

EMBEDDED_MODEL = "tiny"
"""`model.path` of the model that ships with the package."""
SMOLLM2 = "smollm2"
"""`model.path` of SmolLM2-135M-Instruct, whose weights an installed package holds (models.gguf)."""
PLAYED = "sampler"
"""`offline.input` of a run that plays its trajectories: RLlib's word."""
PROMPT_KEYS = ("system_prompt", "prompt_template")
"""Keys of `env` that are texts, which may stand in a file."""
TEXT_KEYS = tuple(f"env.{key}" for key in PROMPT_KEYS)
"""The same as keys of a config."""
ENTERED_KEYS = ("model.path", "offline.input", "offline.output", "results_dir", *TEXT_KEYS, "rewards")
"""Keys of a config that are paths, or hold some."""
_TEXT_FILES = (".txt", ".md")
_TUNE_STARTED_IN = "TUNE_ORIG_WORKING_DIR"
"""Environment variable in which Tune keeps the folder that its driver was started in, unlike a trial's own folder."""


def is_model_name(given: str) -> bool:
    """Says whether `model.path` is a name, and no path: `tiny`, `smollm2`, or a model as it is named on the Hub."""
    return given in (EMBEDDED_MODEL, SMOLLM2) or given in HUB_MODELS


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
    """Returns `model.path`: names stay, anything else is a path (`./tiny` a folder of that name)."""
    return given if is_model_name(given) else str(enter_path(given, folder))


def enter_text(given: str, folder: str | Path | None = None) -> str:
    """Returns a text that a config holds: `given` itself or, if that is one line ending in .txt or .md, what is in the
    file.

    Whoever has entered it has the text: the file may change or go, and a run on other machines does not need it.

    Raises:
        ConfigError: such a file cannot be read; one sentence.
    """
    if not _names_file(given):
        return given
    path = enter_path(given, folder)
    try:
        text = path.read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or "it is not UTF-8"
        raise ConfigError(
            f"the file {path} cannot be read: {why} (a text of one line that ends in {path.suffix} names a file)"
        ) from None
    # What the file says must not be taken for a file when the config is read again.
    return f"{text}\n" if _names_file(text) else text


def enter_reward(told: Mapping[str, object], folder: str | Path | None = None) -> Tree:
    """Returns one entry of `rewards` with the judge's paths entered; settings of users' own functions are theirs."""
    entered = dict(told)
    if told.get("name") == "judge":
        if isinstance(cache := told.get("cache"), (str, Path)):
            entered["cache"] = str(enter_path(cache, folder))
        if isinstance(prompt := told.get("prompt"), str):
            entered["prompt"] = enter_text(prompt, folder)
    return entered


def enter_value(key: str, given: object, folder: str | Path | None = None) -> object:
    """Returns the value of one of ENTERED_KEYS, as the file in `folder` says it, with absolute paths and files' texts.
    What is no text stays.
    """
    if key == "rewards" and isinstance(given, (list, Mapping)):
        told = given if isinstance(given, list) else [given]
        return [enter_reward(one, folder) if isinstance(one, Mapping) else one for one in told]
    if key == "rewards":
        return given
    if not isinstance(given, (str, Path)):
        return given
    if key in TEXT_KEYS:
        return enter_text(str(given), folder)
    return str(given) if _is_name(key, str(given)) else str(enter_path(given, folder))


def enter_paths(tree: Mapping[str, object], folder: str | Path) -> Tree:
    """Returns a config's nested mapping, as the file in `folder` says it, with every value entered (`enter_value`)."""
    return _changed(tree, lambda key, given: enter_value(key, given, folder))


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


def leave_value(key: str, given: object, folder: Path, root: Path) -> object:
    """Returns the inverse of `enter_value`, for a file in `folder` of the folder `root`, which may be moved."""
    if key == "rewards" and isinstance(given, list):
        return [
            {**one, "cache": leave_path(one["cache"], folder, root)}
            if isinstance(one, Mapping) and one.get("name") == "judge" and one.get("cache")
            else one
            for one in given
        ]
    if not isinstance(given, str) or key in TEXT_KEYS or _is_name(key, given):
        return given
    return leave_path(given, folder, root)


def leave_paths(tree: Mapping[str, object], folder: Path, root: Path) -> Tree:
    """Returns the inverse of `enter_paths`, for a file in `folder` of the folder `root`, which may be moved."""
    return _changed(tree, lambda key, given: leave_value(key, given, folder, root))


def _changed(tree: Mapping[str, object], change: Callable[[str, object], object]) -> Tree:
    """Returns the nested mapping with `change(key, value)` for each of ENTERED_KEYS that it has; what is one in `env`
    is one in every entry of `envs`.
    """
    changed: Tree = dict(tree)
    if isinstance(entries := changed.get("envs"), list):
        changed["envs"] = [
            _changed({"env": entry}, change)["env"] if isinstance(entry, Mapping) else entry for entry in entries
        ]
    for key in ENTERED_KEYS:
        section, _, name = key.rpartition(".")
        holder = changed.get(section) if section else changed
        if isinstance(holder, Mapping) and holder.get(name) is not None:
            value = {**holder, name: change(key, holder[name])}
            changed = {**changed, section: value} if section else value
    return changed


def _is_name(key: str, given: str) -> bool:
    """Says whether a key that may say a path says a name."""
    return is_model_name(given) if key == "model.path" else key == "offline.input" and given == PLAYED


def _names_file(text: str) -> bool:
    return "\n" not in text and text.endswith(_TEXT_FILES)


def _is_no_unicode(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
