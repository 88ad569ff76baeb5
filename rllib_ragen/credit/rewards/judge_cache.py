"""A judge's answers, remembered: in memory, and in a file of JSON lines that runs may share."""

from __future__ import annotations

import json
from pathlib import Path

from rllib_ragen.credit.rewards.ask import RewardError


class JudgeCache:
    """Answers by key. The file is read at the first question; a line that a crash cut off is passed over."""

    def __init__(self, path: Path | None) -> None:
        """`path`: the file, made when there is something to write; None: memory alone."""
        self._path = path
        self._known: dict[str, float] | None = None

    def get(self, key: str) -> float | None:
        """Returns what was answered; None: nothing yet. Raises RewardError if the file cannot be read."""
        if self._known is None:
            self._known = self._read()
        return self._known.get(key)

    def put(self, key: str, value: float) -> None:
        """Remembers an answer. Raises RewardError if the file cannot be written."""
        assert self._known is not None, "get() comes first"
        self._known[key] = value
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # One write of one short line: runs that share the file do not tear each other's.
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "value": value}) + "\n")
        except OSError as error:
            raise RewardError(f"cannot write its cache {self._path}: {error.strerror}") from None

    def _read(self) -> dict[str, float]:
        if self._path is None or not self._path.exists():
            return {}
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise RewardError(f"cannot read its cache {self._path}: {error.strerror}") from None
        found = {}
        for line in lines:
            try:
                row = json.loads(line)
                found[str(row["key"])] = float(row["value"])
            except (ValueError, KeyError, TypeError):
                continue
        return found
