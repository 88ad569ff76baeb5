"""The space of all strings, for replies and prompts."""

from __future__ import annotations

import gymnasium as gym

MAX_TEXT = 1_000_000
"""Most characters of a prompt or reply: chosen freely, far above any context window, so that none is refused."""
MAX_STATE = 4_096
"""Most characters of a shipped environment's state text: chosen freely, far above the largest board and its legend."""


class AnyText(gym.spaces.Text):
    """`Text` without an alphabet: any string of at most `max_length` characters, the empty one too.

    Gymnasium's own `Text` holds only the characters of its alphabet (letters and digits by default), so a reply with
    a line break would not be in the action space.
    """

    def __init__(self, max_length: int = MAX_TEXT) -> None:
        super().__init__(max_length, min_length=0)

    def contains(self, x: object) -> bool:
        """Returns whether `x` is a string of at most `max_length` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"AnyText({self.max_length})"
