"""What environments say, made safe: plain text, finite numbers, and one line for whatever was raised.

To be used in the environment's own thread, so that an answer which takes long to read is under its time limit too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rllib_ragen.types import StopReason

END_REASONS = (StopReason.GOAL, StopReason.FAILED, StopReason.MAX_TURNS, StopReason.MAX_ACTIONS)
"""Ends that an environment may tell; the others are the rollout's own."""
_MAX_REWARD = float(np.finfo(np.float32).max)
_MAX_ERROR = 1_000
"""Characters of an error that a trajectory keeps: it is written to logs and shown in tables."""


class BadAnswer(Exception):
    """The environment broke its contract; the message says how and needs no name of an exception before it."""


def text_of(value: Any, what: str) -> str:
    """Returns `value`, which must be text that a tokenizer and a file can take.

    Raises:
        BadAnswer: no str, or half of a surrogate pair, which is a str that no tokenizer takes.
    """
    if not isinstance(value, str):
        raise BadAnswer(f"the environment gave {what} that is no text but {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadAnswer(f"the environment gave {what} that is no text: {error}") from None
    return value


def reward_of(value: Any, whose: str = "the environment gave") -> float:
    """Returns `value` as a number that is finite in the learner's float32, too.

    Raises:
        BadAnswer: it is not finite.
        TypeError: it is no number.
    """
    reward = float(value)
    if not abs(reward) <= _MAX_REWARD:
        raise BadAnswer(f"{whose} a reward of {reward}")
    return reward


def end_of(value: Any) -> StopReason:
    """Returns `value` as a reason why the environment ended the episode. Raises BadAnswer if it is none."""
    if value not in END_REASONS:
        raise BadAnswer(f"the environment gave the stop_reason {value!r}; allowed: {', '.join(END_REASONS)}")
    return StopReason(value)


def error_text(error: BaseException) -> str:
    """Says what was raised, as text that can be written and shown; never raises itself."""
    try:
        said = str(error)
    except Exception:
        said = "(its message cannot be shown)"
    if not isinstance(error, BadAnswer):
        said = f"{type(error).__name__}: {said}"
    return said[:_MAX_ERROR].encode("utf-8", "backslashreplace").decode()
