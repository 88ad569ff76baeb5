"""A person at the terminal, or a script that pipes lines, as the agent."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator

from ragen_envs.reply import SEPARATOR, format_reply
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.play.shown_session import PlayerLeft, show
from rllib_ragen.rollout.conversation import Ask, Conversation
from rllib_ragen.types import Trajectory


class Person(Conversation):
    """An agent that reads a line per turn: a whole reply, or only its actions."""

    def __init__(self, trajectory: Trajectory, think: bool) -> None:
        super().__init__(trajectory)
        self._thought = "" if think else None

    def hear(self, message: str, state: str, system: str = "") -> None:
        super().hear(message, state, system)
        if not self.trajectory.turns:
            print(f"Answer with actions (Up {SEPARATOR} Left) or with a whole reply; Ctrl-D ends.")

    def answer(self) -> Generator[Ask, None, None]:
        yield from ()
        # A pulse that never rests: a person may take all the time there is.
        with waiting("your reply", time.monotonic):
            text = _next_line()
        reply = text if "<" in text else format_reply([part.strip() for part in text.split(SEPARATOR)], self._thought)
        show("assistant", reply)
        self.say(reply)


def _next_line() -> str:
    """Reads the next line that is not empty. Raises PlayerLeft at the end of the input."""
    for line in sys.stdin:
        if text := line.strip():
            return text
    raise PlayerLeft
