"""The reply grammar: `<think>…</think><answer>action || action</answer>`.

Strict (exactly one of each tag, in this order, nothing else but white space) and total (any string has a parse;
nothing raises), because replies are model output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SEPARATOR = "||"
_TAG = re.compile(r"</?(?:think|answer)>")
_WITH_THOUGHT = re.compile(r"\s*<think>(?P<thought>.*?)</think>\s*<answer>(?P<answer>.*?)</answer>\s*", re.DOTALL)
_ANSWER_ONLY = re.compile(r"\s*<answer>(?P<answer>.*?)</answer>\s*", re.DOTALL)


@dataclass(frozen=True)
class Reply:
    """One parsed reply. `actions` are the stripped, non-empty parts of the answer; empty if malformed."""

    well_formed: bool
    thought: str = ""
    actions: tuple[str, ...] = ()


def parse_reply(text: str, *, think: bool = True) -> Reply:
    """Parses one reply.

    Args:
        text: the reply, without chat headers or end-of-turn tokens; with a forced `<think>` put back.
        think: whether a thought is required (True) or forbidden (False).
    """
    match = (_WITH_THOUGHT if think else _ANSWER_ONLY).fullmatch(text)
    if match is None or len(_TAG.findall(text)) != (4 if think else 2):
        return Reply(well_formed=False)
    parts = (part.strip() for part in match["answer"].split(SEPARATOR))
    thought = match["thought"].strip() if think else ""
    return Reply(well_formed=True, thought=thought, actions=tuple(part for part in parts if part))


def format_reply(actions: list[str], thought: str | None = None) -> str:
    """A well-formed reply; without `thought` the form for think=False."""
    answer = f"<answer>{f' {SEPARATOR} '.join(actions)}</answer>"
    return answer if thought is None else f"<think>{thought}</think>{answer}"
