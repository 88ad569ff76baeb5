"""Leduc hold'em: six cards, one of them public, two rounds of betting."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import permutations
from typing import Self

import numpy as np

from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.splits import Split
from ragen_envs.task import chance_seed

CARDS = ("Jack", "Queen", "King")
DECK = CARDS * 2
_CHECK, _BET, _FOLD, _CALL, _RAISE = "Check", "Bet", "Fold", "Call", "Raise"
_ANTE = 1.0
"""Chips that each seat stakes before the first card. This and the next two follow Southey et al. 2005."""
_BET_SIZES = (2.0, 4.0)
"""Chips of a bet in the first and in the second round."""
_MAX_RAISES = 2
"""Most bets and raises of one round."""
_MAX_STAKE = _ANTE + _MAX_RAISES * sum(_BET_SIZES)


class LeducHoldem(TextGame):
    """Rewards are the chips won or lost, up to 13: an ante of 1, and in each round at most two raises of 2, then 4.

    An instance is what the seats are dealt; the public card is chance inside the game, decided by `outcome_seed`. There
    are no splits, for the same reason as in Kuhn poker. The other's card is never shown, not even at the end.
    """

    title: str = "Leduc hold'em"
    perfect_information: bool = False

    def __init__(self) -> None:
        self.deal: tuple[str, ...] = ()
        self.public = ""
        self.betting: tuple[tuple[str, ...], ...] = ((), ())
        self._chips: float | None = None  # the first seat's, once the game is over

    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        """Draws the deal by `seed` and the public card by `outcome_seed`. Raises ValueError for a negative seed."""
        if seed < 0:
            raise ValueError(f"instance seed must be ≥ 0, got {seed}")
        order = np.random.default_rng(seed).permutation(len(DECK))
        turned = np.random.default_rng(chance_seed(outcome_seed)).integers(2, len(DECK))
        self.start((DECK[order[0]], DECK[order[1]]), DECK[order[turned]])

    def start(self, deal: tuple[str, str], public: str) -> None:
        """Starts with given cards. Raises ValueError unless the deck holds them."""
        dealt = [*deal, public]
        if any(dealt.count(card) > DECK.count(card) for card in dealt):
            raise ValueError(f"the deck is {', '.join(DECK)}; got {', '.join(dealt)}")
        self.deal, self.public, self.betting, self._chips = deal, public, ((), ()), None

    def starts(self) -> list[Self]:
        """Returns all 120 orders of three cards."""
        games = []
        for first, second, public in permutations(DECK, 3):
            game = copy.copy(self)
            game.start((first, second), public)
            games.append(game)
        return games

    def rules(self) -> str:
        """Returns the game in words."""
        return (
            "Leduc hold'em: the cards are Jack, Queen and King, each twice. Two players pay 1 chip each and get one "
            "card each, which only they see. Two rounds of betting; before the second, a public card is turned. In "
            "turn: Check or Bet; after a bet, Fold, Call or Raise. A bet or raise is 2 chips in the first round, 4 in "
            "the second, at most two of them in a round. At the end, a pair with the public card wins, else the higher "
            "card; equal cards share. The reward is the chips won or lost. Actions: Check, Bet, Fold, Call, Raise."
        )

    def observe(self, seat: str) -> str:
        """Returns the seat's own card, the public card once it is turned, the betting so far, and what both have
        paid.
        """
        me = self.seats.index(seat)
        lines = [f"You play {'first' if me == 0 else 'second'}", f"Your card: {self.deal[me]}"]
        for number, actions in enumerate(self.betting):
            if number and self._turned:
                lines.append(f"Public card: {self.public}")
            lines += [f"{'You' if index % 2 == me else 'Other'}: {action}" for index, action in enumerate(actions)]
        paid = self._paid()
        return "\n".join([*lines, f"Chips paid: you {paid[me]:g}, other {paid[1 - me]:g}"])

    @property
    def to_move(self) -> tuple[str, ...]:
        """The seat whose turn it is, starting with the first seat in each round, until the betting ends."""
        return (self.seats[len(self._round) % 2],) if self.deal and self._chips is None else ()

    def legal_actions(self, seat: str) -> list[str]:
        """Returns Check and Bet; after a bet, Fold, Call and (once) Raise."""
        if seat not in self.to_move:
            return []
        raises = sum(action in (_BET, _RAISE) for action in self._round)
        if not raises:
            return [_CHECK, _BET]
        return [_FOLD, _CALL, _RAISE] if raises < _MAX_RAISES else [_FOLD, _CALL]

    def outcome(self, seat: str) -> Outcome | None:
        """Returns a win, loss or draw by the chips won; None before the end."""
        if self._chips is None:
            return None
        if self._chips == 0:
            return Outcome.DRAW
        return Outcome.WIN if (self._chips > 0) == (seat == self.seats[0]) else Outcome.LOSS

    def secrets(self, seat: str) -> tuple[str, ...]:
        """Returns the seat's card, unless the public card has the same name."""
        card = self.deal[self.seats.index(seat)]
        return () if self._turned and card == self.public else (card,)

    @property
    def instance_key(self) -> str:
        """What the seats are dealt."""
        return " ".join(self.deal)

    @property
    def position_key(self) -> str:
        """Cards and betting."""
        return f"{self.deal} {self.public} {self.betting} {self._chips}"

    @property
    def _turned(self) -> bool:
        return self.betting[0][-1:] == (_CALL,) or self.betting[0] == (_CHECK, _CHECK)

    @property
    def _round(self) -> tuple[str, ...]:
        return self.betting[self._turned]

    def _paid(self) -> tuple[float, float]:
        paid = [_ANTE, _ANTE]
        for actions, size in zip(self.betting, _BET_SIZES, strict=True):
            for index, action in enumerate(actions):
                if action in (_BET, _RAISE):
                    paid[index % 2] = paid[1 - index % 2] + size
                elif action == _CALL:
                    paid[index % 2] = paid[1 - index % 2]
        return paid[0], paid[1]

    def _play(self, moves: Mapping[str, str]) -> dict[str, float]:
        ((seat, action),) = moves.items()
        second_round = self._turned
        played = (*self._round, action)
        self.betting = (self.betting[0], played) if second_round else (played, ())
        if action == _FOLD:
            return self._ended(self.other(seat), self._paid()[self.seats.index(seat)])
        if not second_round or (action != _CALL and played != (_CHECK, _CHECK)):
            return {}
        strengths = [(card == self.public, CARDS.index(card)) for card in self.deal]
        if strengths[0] == strengths[1]:
            self._chips = 0.0
            return {}
        return self._ended(self.seats[strengths.index(max(strengths))], self._paid()[0])

    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        # The most that play can cost: else not moving would be a cheap fold.
        return self._ended(self.other(losers[0]), _MAX_STAKE)

    def _ended(self, winner: str, chips: float) -> dict[str, float]:
        self._chips = chips if winner == self.seats[0] else -chips
        return {winner: chips, self.other(winner): -chips}
