"""Sampled trajectories as a table, one row a turn, for trackers that show tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragen_envs.tree import Tree
from rllib_ragen.config.printable import safe

MAX_SHOWN = 20_000
"""Characters of one reply or prompt that trackers are given: pages render a table as a whole."""
COLUMNS = ("iteration", "group", "member", "return", "success", "end", "turn", "reward", "prompt", "reply")


def turn_rows(iteration: int, records: Sequence[Tree]) -> list[list[Any]]:
    """Returns one row of `COLUMNS` for every turn of the trajectories; what a terminal would obey is made visible."""
    return [
        [
            iteration,
            str(record["group_id"]),
            int(record["member"]),
            float(record["return"]),
            bool(record["success"]),
            str(record["stop_reason"]),
            number,
            float(turn["reward"]),
            shortened(turn["prompt"]),
            shortened(turn["reply"]),
        ]
        for record in records
        for number, turn in enumerate(record["turns"], start=1)
    ]


def shortened(text: str) -> str:
    """Returns the text, cut after MAX_SHOWN characters, which is said."""
    shown = safe(text[:MAX_SHOWN])
    return shown if len(text) <= MAX_SHOWN else f"{shown}\n{_cut(text)}"


def as_code(text: str) -> str:
    """Returns the text as an indented code block, in which Markdown renders nothing: no link, image or heading."""
    lines = [f"    {safe(line)}" for line in text[:MAX_SHOWN].splitlines() or [""]]
    return "\n".join(lines if len(text) <= MAX_SHOWN else [*lines, "", _cut(text)])


def _cut(text: str) -> str:
    return f"… {len(text) - MAX_SHOWN:,} more characters in trajectories.jsonl"
