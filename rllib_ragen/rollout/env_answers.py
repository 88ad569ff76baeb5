"""Validation of environments' answers: plain text, finite numbers, and errors as one line.

Use it in the environment's own thread, so that its time limit includes the reading of long answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rllib_ragen.types import StopReason

END_REASONS = (StopReason.GOAL, StopReason.FAILED, StopReason.MAX_TURNS, StopReason.MAX_ACTIONS)
"""Stop reasons that an environment may give; the others are the rollout's own."""
_MAX_REWARD = float(np.finfo(np.float32).max)
_MAX_ERROR = 1_000
"""Most characters of an error that a trajectory keeps: chosen freely, because logs and tables show it."""


class BadAnswer(Exception):
    """The environment broke its contract; the message is complete without the name of an exception."""


def text_of(value: object, what: str) -> str:
    """Returns `value`, which must be text for a tokenizer and a file.

    Raises:
        BadAnswer: not a str, or one with half of a surrogate pair, which no tokenizer accepts.
    """
    if not isinstance(value, str):
        raise BadAnswer(f"the environment gave {what} that is no text but {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadAnswer(f"the environment gave {what} that is no text: {error}") from None
    return value


def reward_of(value: Any, whose: str = "the environment gave") -> float:
    """Returns `value` as a float that is finite in the learner's float32.

    Raises:
        BadAnswer: it is not finite.
        TypeError: it is not a number.
    """
    reward = float(value)
    if not abs(reward) <= _MAX_REWARD:
        raise BadAnswer(f"{whose} a reward of {reward}")
    return reward


def end_of(value: Any) -> StopReason:
    """Returns `value` as one of END_REASONS. Raises BadAnswer for anything else."""
    if value not in END_REASONS:
        raise BadAnswer(f"the environment gave the stop_reason {value!r}; allowed: {', '.join(END_REASONS)}")
    return StopReason(value)


def error_text(error: BaseException) -> str:
    """Returns a line about an exception, as safe text; never raises itself."""
    try:
        said = str(error)
    except Exception:
        said = "(its message cannot be shown)"
    if not isinstance(error, BadAnswer):
        said = f"{type(error).__name__}: {said}"
    return said[:_MAX_ERROR].encode("utf-8", "backslashreplace").decode()
