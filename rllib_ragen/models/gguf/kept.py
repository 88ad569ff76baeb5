"""Converted models in the user's cache folder: each GGUF file is converted once, whoever asks first."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from ragen_envs.cache import cache_folder
from rllib_ragen.models.gguf.source import file_hash, gguf_file

RECIPE_VERSION = 1
"""Part of every folder's name: to be raised when the conversion changes; what was converted before is unused then."""
_CARD = "converted.json"
"""File that says what a folder was converted from; it has it if it is whole."""
_DIGITS = 16
"""Hex digits of the SHA-256 in a folder's name: 64 bits, enough for any number of files that a user has."""


def converted_folder(path: str) -> Path:
    """Says where the model of `model.path` is once it is converted; the path itself, if there is no such file."""
    found = file_hash(path)
    if found is None:
        return Path(path)
    return cache_folder() / "converted_models" / f"{Path(path).stem}-{found[:_DIGITS]}-{RECIPE_VERSION}"


def ensure_converted(path: str, say: Callable[[str], object] | None = None) -> Path:
    """Returns the model's transformers folder, converted now unless it is there. Of several processes one converts.

    Args:
        path: `model.path`; see `is_gguf`.
        say: is told before a conversion; None: standard error.

    Raises:
        ValueError: file or packages are missing, it is not what it should be, or it cannot be kept; one sentence.
    """
    folder = converted_folder(path)
    if (folder / _CARD).is_file():
        return folder
    file = gguf_file(path)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Freed by the system if its holder dies.
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            if not (folder / _CARD).is_file():
                (say or _on_stderr)(f"converting {file.name} to a transformers folder, once: {folder}")
                write_converted(file, folder)
    except OSError as error:
        raise ValueError(f"model.path={path}: {folder} cannot be written: {error.strerror or error}") from None
    return folder


def write_converted(file: Path, out: Path) -> None:
    """Converts a GGUF file into the folder `out`, which appears whole or not at all.

    Raises:
        ValueError: the file cannot be converted; one sentence.
        OSError: `out` cannot be written, or holds something.
    """
    from rllib_ragen.models.gguf.convert import convert

    out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=out.parent, prefix=".making-"))
    try:
        convert(file, draft)
        card = {"file": file.name, "sha256": file_hash(str(file)), "recipe": RECIPE_VERSION}
        (draft / _CARD).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
        # Other users may read what lies in a folder that they can reach; temporary folders are made for one.
        draft.chmod(0o755)
        for written in draft.iterdir():
            written.chmod(0o644)
        draft.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _on_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
