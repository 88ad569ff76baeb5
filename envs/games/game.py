"""TextGame: the rules of a game for several seats, with texts."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Self

import gymnasium as gym

from ragen_envs.splits import Split


class Outcome(StrEnum):
    """How a game ended for one seat."""

    WIN = "win"
    DRAW = "draw"
    LOSS = "loss"


class TextGame(ABC):
    """Rules and rewards of one game, without tokens, prompts or replies: `TextGameEnv` adds the language.

    A seat is a name ("player_0"), an action is its name as people say it ("Fold"). Where several seats are in `to_move`
    they move at once: none sees what another chose. The state is held in immutable attributes that moves replace, so
    that `after` can look ahead on a shallow copy.
    """

    title: str
    """The prompt in brief style; also the name in tables."""
    seats: tuple[str, ...] = ("player_0", "player_1")
    """All seats, in the order in which they are listed."""
    zero_sum: bool = True
    """Whether the rewards of legal play add up to 0 over the seats."""
    cooperative: bool = False
    """Whether all seats get the same rewards: they win or lose together."""
    perfect_information: bool = True
    """Whether each seat sees everything except simultaneous moves."""
    has_splits: bool = False
    """Whether instances are split by content into train, val and test; else all three are the same."""

    @abstractmethod
    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        """Starts the instance that (seed, split) names; `outcome_seed` decides the chance inside the game."""

    @abstractmethod
    def rules(self) -> str:
        """Returns the game in a few sentences: aim, actions, rewards. The same for all seats."""

    @abstractmethod
    def observe(self, seat: str) -> str:
        """Returns what `seat` may see of the current state, and its role; never a secret of another seat."""

    @property
    @abstractmethod
    def to_move(self) -> tuple[str, ...]:
        """The seats that move now, at once if several; empty when the game is over."""

    @abstractmethod
    def legal_actions(self, seat: str) -> list[str]:
        """Returns the actions that `seat` can take now; empty unless it is to move."""

    @abstractmethod
    def outcome(self, seat: str) -> Outcome | None:
        """Returns how the game ended for `seat`; None before its end."""

    @property
    @abstractmethod
    def instance_key(self) -> str:
        """Canonical text of the instance: equal keys mean the same start. Decides the split where there are splits."""

    @property
    @abstractmethod
    def position_key(self) -> str:
        """Canonical text of everything that decides the rest of the game, secrets included."""

    @abstractmethod
    def _play(self, moves: Mapping[str, str]) -> dict[str, float]:
        """Carries out legal `moves` of all seats to move → rewards; seats left out get 0."""

    @abstractmethod
    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        """Takes `losers` out of the game as having lost → rewards; seats left out get 0."""

    def starts(self) -> list[Self]:
        """Returns all equally likely starts of a game that has few. Default: the current one alone."""
        if self.has_splits:
            raise NotImplementedError(f"{self.title} has too many starts")
        start = copy.copy(self)
        start.reset(0, Split.TEST, 0)
        return [start]

    def success(self, seat: str) -> bool:
        """Returns whether `seat` reached its goal. Default: a win."""
        return self.outcome(seat) is Outcome.WIN

    def terminated(self, seat: str) -> bool:
        """Returns whether the game has ended for `seat`, which may be before it ends for others."""
        return self.outcome(seat) is not None

    def secrets(self, seat: str) -> tuple[str, ...]:
        """Returns words that only `seat` may read in an observation during the game, such as the name of its card."""
        return ()

    def describe_for(self, seat: str) -> str:
        """Returns the position in words, as `seat`, which is to move, may describe it; empty if the game has no such
        text.

        It describes the position, not what to do. Thoughts of demonstrations begin with it.
        """
        return ""

    def describe_move(self, seat: str, action: str) -> str:
        """Returns the legal `action` in words that may name its effect: `win A3`. Thoughts of demonstrations end with
        it.
        """
        return f"play {action}"

    def parse_action(self, seat: str, text: str) -> str | None:
        """Returns the legal action that `text` names (case-insensitively), or None; never raises."""
        by_name = {name.lower(): name for name in self.legal_actions(seat)}
        return by_name.get(text.strip().lower())

    def play(self, moves: Mapping[str, str]) -> dict[str, float]:
        """Carries out one move of every seat that is to move → the reward of each seat.

        Raises:
            ResetNeeded: the game is over.
            ValueError: moves of other seats than those to move, or an action that is not legal.
        """
        self._check_seats(tuple(moves), all_of_them=True)
        for seat, action in moves.items():
            if action not in self.legal_actions(seat):
                raise ValueError(f"{action!r} is not legal for {seat}; legal: {', '.join(self.legal_actions(seat))}")
        return dict.fromkeys(self.seats, 0.0) | self._play(moves)

    def forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        """Ends the game as a loss for seats that are to move and made no legal move → the reward of each seat.

        Raises:
            ResetNeeded: the game is over.
            ValueError: a seat that is not to move.
        """
        self._check_seats(losers, all_of_them=False)
        return dict.fromkeys(self.seats, 0.0) | self._forfeit(losers)

    def after(self, moves: Mapping[str, str]) -> tuple[Self, dict[str, float]]:
        """Returns (the game after `moves`, rewards); this game does not change."""
        child = copy.copy(self)
        return child, child.play(moves)

    def other(self, seat: str) -> str:
        """Returns the opponent of `seat` in a game for two."""
        first, second = self.seats
        return second if seat == first else first

    def _check_seats(self, seats: tuple[str, ...], all_of_them: bool) -> None:
        if not self.to_move:
            raise gym.error.ResetNeeded("the game is over (or never begun): call reset()")
        if not set(seats) <= set(self.to_move) or (all_of_them and len(seats) < len(self.to_move)):
            raise ValueError(f"to move: {', '.join(self.to_move)}; got moves of {', '.join(seats) or 'nobody'}")
