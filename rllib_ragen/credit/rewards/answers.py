"""What a reward function answers, as one number for each turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsFloat, cast

import numpy as np

_MOST = float(np.finfo(np.float32).max)
_SHOWN = 60
"""Characters of a wrong answer that are shown."""


def per_turn(answer: object, num_turns: int) -> list[float]:
    """Returns [num_turns] numbers: the answer's own, or its one number on the last turn.

    Raises:
        ValueError: it is neither, or not finite in the learner's float32; the end of a sentence.
    """
    if isinstance(answer, np.ndarray) and answer.ndim:
        answer = answer.tolist()
    if not isinstance(answer, Sequence) or isinstance(answer, (str, bytes)):
        return [0.0] * (num_turns - 1) + [number(answer)]
    if len(answer) != num_turns:
        raise ValueError(f"gave {len(answer)} numbers for {num_turns} turn(s)")
    return [number(one) for one in answer]


def number(answer: object) -> float:
    """Returns the answer as a number. Raises ValueError likewise."""
    if isinstance(answer, (str, bytes)) or answer is None:
        raise ValueError(f"gave {_short(answer)}, which is no number")
    try:
        found = float(cast(SupportsFloat, answer))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"gave {_short(answer)}, which is no number") from None
    if not abs(found) <= _MOST:
        raise ValueError(f"gave {found:g}")
    return found


def _short(answer: object) -> str:
    try:
        said = repr(answer)
    except Exception:
        said = f"a {type(answer).__name__}"
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
