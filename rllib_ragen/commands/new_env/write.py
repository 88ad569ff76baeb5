"""A user's new package: the template with the user's name in place of its own."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from ragen_envs.worlds import ENVIRONMENTS
from rllib_ragen.config.errors import ConfigError

TEMPLATE = Path(__file__).parent / "template"
_NAME, _CLASS = "new_world", "NewWorld"
_ALLOWED = re.compile(r"[a-z][a-z0-9_]*")
_FOLDER_OF_TESTS = "tests"


def class_name(name: str) -> str:
    """Returns `guess_number` → `GuessNumber`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def write_package(name: str, parent: Path) -> list[Path]:
    """Writes the package `name` into a new folder of that name in `parent` → its files, relative to `parent`.

    Raises:
        ConfigError: a name that cannot be a package's or an environment's, or that is taken; a folder that is there
            already or cannot be written. Nothing is written then.
    """
    check_name(name)
    folder = parent / name
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"NAME: {folder} is there already; give another name, or remove it")
    if (found := find_spec(name)) is not None:
        raise ConfigError(f"NAME: there is a module {name!r} already ({found.origin or 'a folder'}); give another name")
    written = []
    try:
        folder.mkdir()
        for source in sorted(path for path in TEMPLATE.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            target = folder / _renamed(str(source.relative_to(TEMPLATE)), name)
            target.parent.mkdir(exist_ok=True)
            target.write_text(_renamed(source.read_text(encoding="utf-8"), name), encoding="utf-8")
            written.append(target.relative_to(parent))
    except OSError as error:
        raise ConfigError(f"NAME: {folder} cannot be written: {error}") from error
    return sorted(written)


def check_name(name: str) -> None:
    """Raises ConfigError, saying why, where a package and its environment cannot have this name."""
    if not _ALLOWED.fullmatch(name):
        raise ConfigError(f"NAME: {name!r} is no package's name: allowed are small letters, digits and _")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise ConfigError(f"NAME: {name!r} is a word of the Python language; give another name")
    if name in sys.stdlib_module_names:
        raise ConfigError(f"NAME: {name!r} is a module of Python's standard library; give another name")
    if name in ENVIRONMENTS.shipped():
        raise ConfigError(f"NAME: {name!r} is the name of a shipped environment; give yours another one")
    if name == _FOLDER_OF_TESTS:
        raise ConfigError(f"NAME: {name!r} is the folder of the package's tests; give another name")
    world = (TEMPLATE / _NAME / "world.py").read_text(encoding="utf-8")
    if class_name(name) != _CLASS and re.search(rf"\b{class_name(name)}\b", world):
        raise ConfigError(f"NAME: {name!r} makes a class {class_name(name)}, a name that world.py uses; give another")


def _renamed(text: str, name: str) -> str:
    return text.replace(_NAME, name).replace(_CLASS, class_name(name))
