"""Small JSON values kept in the user's cache folder ($XDG_CACHE_HOME/rllib_ragen, else ~/.cache/rllib_ragen)."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path

from ragen_envs.tree import Tree


def cache_folder() -> Path:
    """Returns the folder of cached values; it need not exist."""
    # The XDG specification: a relative path is invalid and to be ignored.
    asked = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(asked) if os.path.isabs(asked) else Path.home() / ".cache"
    return base / "rllib_ragen"


def read_cached(kind: str, key: str) -> Tree | None:
    """Returns the value kept under `key`, or None if there is none that can be read."""
    try:
        kept = json.loads(_file(kind, key).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    value = kept.get("value") if isinstance(kept, dict) and kept.get("key") == key else None
    return value if isinstance(value, dict) else None


def write_cached(kind: str, key: str, value: Tree) -> bool:
    """Writes `value` under `key`; returns False if the folder cannot be written (the value is then computed again)."""
    path = _file(kind, key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Several processes may write the same value at once: each its own file, then one atomic step.
        handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"key": key, "value": value}, file, ensure_ascii=False)
        os.replace(draft, path)
    except OSError:
        return False
    return True


def _file(kind: str, key: str) -> Path:
    return cache_folder() / kind / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
