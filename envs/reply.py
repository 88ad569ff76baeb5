"""The reply grammar: `<think>…</think><answer>action || action</answer>`.

Strict (exactly one of each tag, in this order, nothing else but white space), total (any string has a parse; nothing
raises) and linear in the reply's length, because replies are model output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SEPARATOR = "||"
_TAG = re.compile(r"(</?(?:think|answer)>)")
_ANSWER = ("<answer>", "</answer>")
_THOUGHT_AND_ANSWER = ("<think>", "</think>", *_ANSWER)


@dataclass(frozen=True)
class Reply:
    """A parsed reply. `actions` are the stripped, non-empty parts of the answer; empty if malformed."""

    well_formed: bool
    thought: str = ""
    actions: tuple[str, ...] = ()


def parse_reply(text: str, *, think: bool = True) -> Reply:
    """Parses one reply.

    Args:
        text: the reply, without chat headers or end-of-turn tokens; with a forced `<think>` put back.
        think: whether a thought is required (True) or forbidden (False).
    """
    wanted = _THOUGHT_AND_ANSWER if think else _ANSWER
    # One pass over the tags: a pattern of the whole reply would try every pair of them, which takes minutes where there
    # are thousands, and nothing can interrupt a regular expression at work.
    pieces = _TAG.split(text, maxsplit=len(wanted) + 1)
    texts, tags = [piece.strip() for piece in pieces[::2]], tuple(pieces[1::2])
    outside, inside = texts[::2], texts[1::2]
    if tags != wanted or any(outside):
        return Reply(well_formed=False)
    parts = (part.strip() for part in inside[-1].split(SEPARATOR))
    return Reply(well_formed=True, thought=inside[0] if think else "", actions=tuple(part for part in parts if part))


def format_reply(actions: list[str], thought: str | None = None) -> str:
    """Returns a well-formed reply, in the form for think=False if there is no `thought`."""
    answer = f"<answer>{f' {SEPARATOR} '.join(actions)}</answer>"
    return answer if thought is None else f"<think>{thought}</think>{answer}"
