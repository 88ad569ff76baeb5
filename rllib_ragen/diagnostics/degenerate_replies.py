"""Signs of degenerate replies, from their text and token ids alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rllib_ragen.diagnostics.thoughts import CLOSE, OPEN
from rllib_ragen.types import IntArray, Trajectory

_N = 4
"""Length in tokens of the n-grams that count as repeated: chosen freely, as in the usual 4-gram measures."""
REPLY_METRICS = ("empty_thought_ratio", "repeated_ratio")


def reply_statistics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns means over the turns of `trajectories`; NaN without turns.

    empty_thought_ratio: share of valid turns with both think tags that have no letter or digit between them.
    repeated_ratio: mean over turns of `repeated_ratio`.
    """
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    thoughts = [thought for turn in turns if turn.valid and (thought := thought_text(turn.reply)) is not None]
    repeated = [repeated_ratio(turn.reply_ids) for turn in turns if len(turn.reply_ids) > _N]
    return {
        "empty_thought_ratio": _mean([not any(map(str.isalnum, thought)) for thought in thoughts]),
        "repeated_ratio": _mean(repeated),
    }


def thought_text(reply: str) -> str | None:
    """Returns the text between the think tags; None if one of them is missing."""
    _, opened, rest = reply.partition(OPEN)
    thought, closed, _ = rest.partition(CLOSE)
    return thought if opened and closed else None


def repeated_ratio(token_ids: IntArray) -> float:
    """Returns the share of 4-grams of tokens that occurred earlier in the sequence: 0.8 for `!!!!!!!!`."""
    runs = np.lib.stride_tricks.sliding_window_view(token_ids, _N)
    return 1 - len({run.tobytes() for run in runs}) / len(runs)


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers)) if numbers else float("nan")
