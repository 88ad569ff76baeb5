"""Data sets in users' files: JSON lines (plain or .gz), each row checked, errors named by file and line."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from ragen_envs.tree import Tree

T = TypeVar("T")


def read_rows(file: str | Path, make: Callable[[Tree], T]) -> list[T]:
    """Applies `make` to every row of a .jsonl or .jsonl.gz file → its results; empty lines are skipped.

    Args:
        file: the file; `~` is the home folder.
        make: reads one row; KeyError, TypeError and ValueError mean that the row is invalid.

    Raises:
        ValueError: no such file, an unreadable one, one without rows, or a broken row: file, line and reason.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        with _opened(path) as lines:
            rows = [_made(path, number, line, make) for number, line in enumerate(lines, 1) if line.strip()]
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not rows:
        raise ValueError(f"{path} has no rows")
    return rows


def only_file(folder: str | Path, stem: str) -> Path:
    """Returns the one file `<stem>*.jsonl` or `<stem>*.jsonl.gz` of `folder`.

    Raises:
        ValueError: no such folder, no such file, or several.
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise ValueError(f"there is no folder {place}")
    found = sorted([*place.glob(f"{stem}*.jsonl"), *place.glob(f"{stem}*.jsonl.gz")])
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise ValueError(f"{place} must hold one file {stem}*.jsonl or {stem}*.jsonl.gz; there is {names}")
    return found[0]


def text_of(row: Tree, *keys: str) -> str:
    """Returns the value of the first of `keys` that `row` has, which must be a non-empty text.

    Raises:
        ValueError: the row has none of them, or no text there.
    """
    for key in keys:
        if key in row:
            if not isinstance(row[key], str) or not row[key].strip():
                raise ValueError(f"{key} must be a text, got {str(row[key])[:40]!r}")
            return str(row[key]).strip()
    raise ValueError(f"lacks {' or '.join(keys)}")


def _opened(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _made(path: Path, number: int, line: str, make: Callable[[Tree], T]) -> T:
    where = f"{path}, line {number}"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: no JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where}: must be a JSON object")
    try:
        return make(row)
    except KeyError as error:
        raise ValueError(f"{where}: lacks {error.args[0]}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None
