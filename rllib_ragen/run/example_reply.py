"""One reply of a batch, for a message that says that none is any good."""

from __future__ import annotations

from collections.abc import Sequence

from rllib_ragen.config.printable import safe
from rllib_ragen.types import Trajectory

_SHOWN = 160
"""Characters of a reply that are shown: a line or two of a terminal."""


def example_reply(trajectories: Sequence[Trajectory], max_reply_tokens: int) -> str:
    """Returns `a reply was "…"`, of an invalid turn if there is one, on one line and harmless; else nothing."""
    turns = [turn for one in trajectories if not one.stop_reason.failed for turn in one.turns if len(turn.reply_ids)]
    turn = next((turn for turn in turns if not turn.valid), turns[0] if turns else None)
    if turn is None:
        return ""
    reply = safe(" ".join(turn.reply.split()))
    shown = reply if len(reply) <= _SHOWN else f"{reply[:_SHOWN]}…"
    cut = f" (cut off at {max_reply_tokens} tokens)" if len(turn.reply_ids) >= max_reply_tokens else ""
    return f'a reply was "{shown}"{cut}'
