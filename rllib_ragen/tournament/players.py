"""Players at many tables at once: they are asked for replies by key, and answer when they can."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ragen_envs.games.chances import Player, choose
from ragen_envs.games.game import TextGame
from ragen_envs.reply import format_reply


class Place(NamedTuple):
    """A seat at a table."""

    game: int
    seat: str


class Question(NamedTuple):
    """What a player is asked."""

    place: Place
    system: str
    """Rules and reply format: the conversation's system message."""
    prompt: str
    """The user message of this turn."""
    game: TextGame
    """Scripted players look at it, and only at what their seat may see."""
    seed: int
    """Decides the reply, with the prompts so far."""


@dataclass(frozen=True)
class ReplyLimits:
    """How replies are sampled."""

    max_reply_tokens: int = 72
    max_context_tokens: int = 1024
    temperature: float = 1.0
    """0: the likeliest token always."""
    top_p: float = 1.0
    top_k: int = 0


class TablePlayer(ABC):
    """Plays any number of games at once; every place has a conversation of its own."""

    name: str

    @abstractmethod
    def ask(self, question: Question) -> None:
        """Takes a question; its answer comes out of `answers`."""

    @abstractmethod
    def answers(self) -> list[tuple[Place, str]]:
        """Works until at least one reply is there, and returns all that are; empty only if nothing is asked."""

    def forget(self, place: Place) -> None:  # noqa: B027 - scripts remember nothing
        """Ends the game at this place."""


class ScriptedPlayer(TablePlayer):
    """A function of (game, seat) as a player; it always names a legal action."""

    def __init__(self, name: str, script: Player, *, think: bool) -> None:
        """
        Args:
            name: in tables.
            script: gives the chance of each legal action.
            think: whether replies must hold a thought, which is empty.
        """
        self.name = name
        self._script, self._thought = script, "" if think else None
        self._replies: list[tuple[Place, str]] = []

    def ask(self, question: Question) -> None:
        chances = self._script(question.game, question.place.seat)
        action = choose(chances, np.random.default_rng(question.seed))
        self._replies.append((question.place, format_reply([action], self._thought)))

    def answers(self) -> list[tuple[Place, str]]:
        replies, self._replies = self._replies, []
        return replies
