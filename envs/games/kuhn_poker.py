"""Kuhn poker: three cards, one bet."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import permutations
from typing import Self

import numpy as np

from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.splits import Split

CARDS = ("Jack", "Queen", "King")
DEALS = tuple(permutations(CARDS, 2))
"""All pairs (first seat's card, second seat's card)."""
_CHECK, _BET, _FOLD, _CALL = "Check", "Bet", "Fold", "Call"
_SHOWDOWNS = {(_CHECK, _CHECK): 1.0, (_BET, _CALL): 2.0, (_CHECK, _BET, _CALL): 2.0}
"""Chips that the lower card pays the higher one, by the betting that ends with a showdown."""


class KuhnPoker(TextGame):
    """Rewards are the chips won or lost: 1 (antes), or 2 after a bet that was called.

    An instance is one of the six deals, named by `seed`. There are no splits, and `split` changes nothing: six deals
    are the whole game, and without some of them both the odds and the best play would be those of another game. A seat
    sees its own card and the betting; the other's card is never shown, not even at the end.
    """

    title: str = "Kuhn poker"
    perfect_information: bool = False

    def __init__(self) -> None:
        self.deal: tuple[str, ...] = ()
        self.betting: tuple[str, ...] = ()
        self._chips: float | None = None  # the first seat's, once the game is over

    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        """Deals, uniformly over seeds. Raises ValueError for a negative seed."""
        if seed < 0:
            raise ValueError(f"instance seed must be ≥ 0, got {seed}")
        self.start(DEALS[int(np.random.default_rng(seed).integers(len(DEALS)))])

    def start(self, deal: tuple[str, ...]) -> None:
        """Starts with a given deal. Raises ValueError unless it is one of DEALS."""
        if deal not in DEALS:
            raise ValueError(f"a deal is two different cards of {', '.join(CARDS)}; got {deal}")
        self.deal, self.betting, self._chips = deal, (), None

    def starts(self) -> list[Self]:
        """Returns the six deals."""
        games = [copy.copy(self) for _ in DEALS]
        for game, deal in zip(games, DEALS, strict=True):
            game.start(deal)
        return games

    def rules(self) -> str:
        """Returns the game in words."""
        return (
            "Kuhn poker: the cards are Jack, Queen and King, each once. Two players pay 1 chip each and get one card "
            "each, which only they see. In turn: Check or Bet 1 chip; after a bet, Fold (lose 1 chip) or Call. If both "
            "check, the higher card wins 1 chip; after a call it wins 2. The reward is the chips won or lost. "
            "Actions: Check, Bet, Fold, Call."
        )

    def observe(self, seat: str) -> str:
        """Returns the seat's own card and the betting so far."""
        me = self.seats.index(seat)
        lines = [f"You play {'first' if me == 0 else 'second'}", f"Your card: {self.deal[me]}"]
        for number, action in enumerate(self.betting):
            lines.append(f"{'You' if number % 2 == me else 'Other'}: {action}")
        return "\n".join(lines)

    @property
    def to_move(self) -> tuple[str, ...]:
        """The seat whose turn it is, until the betting ends."""
        return (self.seats[len(self.betting) % 2],) if self.deal and self._chips is None else ()

    def legal_actions(self, seat: str) -> list[str]:
        """Returns Check and Bet; after a bet, Fold and Call."""
        if seat not in self.to_move:
            return []
        return [_FOLD, _CALL] if self._bet_stands() else [_CHECK, _BET]

    def outcome(self, seat: str) -> Outcome | None:
        """Returns whether `seat` won or lost chips (there are no draws); None before the end."""
        if self._chips is None:
            return None
        return Outcome.WIN if (self._chips > 0) == (seat == self.seats[0]) else Outcome.LOSS

    def secrets(self, seat: str) -> tuple[str, ...]:
        """Returns the seat's card."""
        return (self.deal[self.seats.index(seat)],)

    @property
    def instance_key(self) -> str:
        """The deal."""
        return " ".join(self.deal)

    @property
    def position_key(self) -> str:
        """Deal and betting."""
        return f"{self.deal} {self.betting} {self._chips}"

    def _bet_stands(self) -> bool:
        return self.betting[-1:] == (_BET,)

    def _play(self, moves: Mapping[str, str]) -> dict[str, float]:
        ((seat, action),) = moves.items()
        self.betting = (*self.betting, action)
        if action == _FOLD:
            return self._ended(self.other(seat), 1.0)
        if self.betting in _SHOWDOWNS:
            higher = max(range(2), key=lambda index: CARDS.index(self.deal[index]))
            return self._ended(self.seats[higher], _SHOWDOWNS[self.betting])
        return {}

    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        # What a bet that was called would cost: else not moving would be a free fold.
        return self._ended(self.other(losers[0]), 2.0)

    def _ended(self, winner: str, chips: float) -> dict[str, float]:
        self._chips = chips if winner == self.seats[0] else -chips
        return {winner: chips, self.other(winner): -chips}
