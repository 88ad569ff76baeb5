"""What wandb has written of a run while offline, read with its own protocol buffers; it ships no reader in Python."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wandb.proto.wandb_internal_pb2 import Record

from tests.patience import wait_until

_FILE_HEADER, _BLOCK, _HEADER = 7, 32_768, 7
"""Bytes: the file's own, of a block, and of a piece's header (checksum 4, length 2, kind 1), as in LevelDB's log."""
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records(file: Path) -> Iterator[Any]:
    """All records of a `run-….wandb` file, in their order."""
    data, place, whole = file.read_bytes(), _FILE_HEADER, b""
    while place + _HEADER <= len(data):
        if _BLOCK - place % _BLOCK < _HEADER:
            place += _BLOCK - place % _BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + _HEADER])
        place += _HEADER
        if place + length > len(data):
            return
        whole = data[place : place + length] if kind in (_FULL, _FIRST) else whole + data[place : place + length]
        place += length
        if kind in (_FULL, _LAST):
            yield Record.FromString(whole)


def sittings(folder: Path) -> list[list[Any]]:
    """The records of a run's sittings that are over, oldest first: each is a folder of its own.

    wandb's own process writes them, and may be a moment behind: it is waited for until each has its end.
    """
    found: list[list[Any]] = []

    def all_have_ended() -> bool:
        found[:] = [list(records(file)) for file in sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))]
        return all(any(record.HasField("exit") for record in sitting) for sitting in found)

    wait_until(all_have_ended, "wandb has written the end of every sitting")
    return found


def ids(sitting: list[Any]) -> set[str]:
    """The ids that its run has."""
    return {record.run.run_id for record in sitting if record.HasField("run")}


def history(sitting: list[Any]) -> list[dict[str, Any]]:
    """What was logged, row by row."""
    found = []
    for record in sitting:
        if record.HasField("history"):
            items = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            found.append({key: value for key, value in items.items() if not key.startswith("_")})
    return found
