"""Atomic folders: files reach the disk before the folder's name, and each is checked against its checksum."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from ragen_envs.tree import Tree

PARTIAL = "partial"
"""Prefix of the name of a folder that is being written."""
Digest = Tree
"""Size and checksum of a file: {"bytes": size, "sha256": hex}."""


def write_whole(folder: Path, fill: Callable[[Path], object]) -> None:
    """Calls `fill` on a new folder, which replaces `folder` only when all of it is on disk.

    A kill at any moment leaves the old folder; leftovers of an earlier kill are removed.
    """
    for leftover in folder.parent.glob(f"{PARTIAL}_*"):
        shutil.rmtree(leftover)
    partial = folder.with_name(f"{PARTIAL}_{folder.name}")
    partial.mkdir(parents=True)
    try:
        fill(partial)
    except Exception:
        # On a full disk, the rest of the run can use the room.
        shutil.rmtree(partial, ignore_errors=True)
        raise
    for path in partial.rglob("*"):
        sync(path)
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)
    sync(folder.parent)


def move_into(partial: Path, folder: Path, last: str) -> None:
    """Replaces the entries of `folder` by those of `partial`; `last` is removed first and added last."""
    (folder / last).unlink(missing_ok=True)
    for entry in sorted(partial.iterdir(), key=lambda entry: entry.name == last):
        target = folder / entry.name
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(entry, target)
    partial.rmdir()


def link_folder(source: Path, folder: Path) -> None:
    """Copies `source` to `folder` by hard links, or by bytes if the file system has no links."""
    try:
        shutil.copytree(source, folder, copy_function=os.link, dirs_exist_ok=True)
    except OSError:
        shutil.copytree(source, folder, dirs_exist_ok=True)


def sync(path: Path) -> None:
    """Waits until a file's bytes, or a folder's names, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digests(folder: Path) -> dict[str, Digest]:
    """Computes the digest of every file below `folder`, by relative path."""
    return {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def check_files(folder: Path, listed: Mapping[str, Digest], *, contents: bool) -> None:
    """Checks that every file exists with its size and, if `contents`, its checksum.

    Raises:
        ValueError: one sentence that names the first file that differs.
    """
    for name, digest in listed.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{str(path)!r} is missing: the checkpoint is not complete")
        size = path.stat().st_size
        if size != digest["bytes"]:
            raise ValueError(f"{str(path)!r} has {size} bytes, not the {digest['bytes']} that were written: it is torn")
        if contents and _sha256(path) != digest["sha256"]:
            raise ValueError(f"{str(path)!r} is not what was written: its checksum is another")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
