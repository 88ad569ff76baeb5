"""What an episode is to the loop: a generator that asks its environment and its policies, and hears of a forced end.

A one-agent episode is a dozen lines (text_session.py):

    def play(self):
        opening = yield from on_env(read_opening)          # in the environment's thread, under its time limit
        self.conversation.hear(opening.message, ...)
        while True:
            yield from self.conversation.answer()          # sampled by the policy's engine
            step = yield from on_env(read_step)
            ...

Games, matches and a terminal's player are others. Whatever `play` raises, the environment or the engine does, ends this
episode alone: `stop` gets the reason, and the loop goes on with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from rllib_ragen.rollout.conversation import Ask
from rllib_ragen.rollout.env_pool import Closable
from rllib_ragen.types import StopReason

EnvT = TypeVar("EnvT", bound=Closable)
T = TypeVar("T")


@dataclass(frozen=True)
class EnvCall(Generic[EnvT]):
    """A call for the episode's environment."""

    call: Callable[[EnvT], Any]
    """Function to run in the environment's thread. It should return plain data; its errors count as the
    environment's.
    """


Steps: TypeAlias = Generator[EnvCall[EnvT] | Ask, Any, None]
"""Type of `Session.play`. An EnvCall is answered with its result; an Ask with None, when all have replied."""


class Session(Protocol[EnvT]):
    """One episode. It keeps its results, which its maker reads after the loop."""

    def play(self) -> Steps[EnvT]:
        """Plays the episode, on an environment of its own from the first EnvCall to the end."""

    def stop(self, reason: StopReason, error: str = "") -> None:
        """Ends the episode early: something failed, or a context is full. `play` is not resumed."""


def on_env(call: Callable[[EnvT], T]) -> Generator[EnvCall[EnvT], Any, T]:
    """Runs `call` on the environment → its result; as in `answer = yield from on_env(call)`."""
    answer: T = yield EnvCall(call)
    return answer
