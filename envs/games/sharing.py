"""SharingGame: the common part of games in which two seats share a pool of items that they value differently."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ragen_envs.games.open_spiel import OpenSpielGame

_ITEMS = ("book", "hat", "ball")
_KEEP = "Keep"


class SharingGame(OpenSpielGame):
    """Seats offer in turn, until one agrees to the other's last offer: then each gets its share, else both get nothing.

    A win is a higher return than the other's. Success is an agreement worth at least half of the pool to the seat,
    which both seats can reach at once. Values are private.
    """

    AGREE: ClassVar[str] = "Agree"
    max_turns: int
    """Most offers and agreements of both seats together in a game."""

    @property
    @abstractmethod
    def pool(self) -> tuple[int, ...]:
        """Number of items of each kind."""

    @abstractmethod
    def values(self, seat: str) -> tuple[int, ...]:
        """Returns the value of one item of each kind to `seat`."""

    @property
    @abstractmethod
    def offers(self) -> tuple[tuple[int, ...], ...]:
        """Items of each kind that each offer keeps for the seat that made it, oldest first."""

    @property
    @abstractmethod
    def agreed(self) -> bool:
        """Whether the last offer was accepted."""

    def success(self, seat: str) -> bool:
        """Returns whether the agreement gave `seat` items worth at least half of the pool."""
        mine = self._returns[self.seats.index(seat)]
        return not self.to_move and not self._forfeited and mine > 0 and 2 * self.share(seat) >= self.whole(seat)

    def secrets(self, seat: str) -> tuple[str, ...]:
        """Returns the seat's values."""
        return (self._values_told(seat),)

    def whole(self, seat: str) -> int:
        """Returns the value of the whole pool to `seat`."""
        return worth(self.pool, self.values(seat))

    def share(self, seat: str) -> int:
        """Returns the value to `seat` of its share by the last offer; 0 before the first."""
        if not self.offers:
            return 0
        me, offer = self.seats.index(seat), self.offers[-1]
        mine = (len(self.offers) - 1) % 2 == me
        kept = offer if mine else tuple(all_of - theirs for all_of, theirs in zip(self.pool, offer, strict=True))
        return worth(kept, self.values(seat))

    def kept(self, action: str) -> tuple[int, ...] | None:
        """Returns the items of each kind that an offer keeps; None if `action` is no offer."""
        word, _, numbers = action.partition(" ")
        return tuple(int(number) for number in numbers.split("-")) if word == _KEEP else None

    def _who(self, seat: str) -> str:
        return f"You play {'first' if seat == self.seats[0] else 'second'}"

    def _pool_told(self) -> str:
        return f"Pool: {_told(self.pool)}"

    def _values_told(self, seat: str) -> str:
        return f"Your values: {_told(self.values(seat))}"

    def _speaker(self, seat: str, offer: int) -> str:
        """Returns who made offer number `offer` (from 0), as seen by `seat`: "You" or "Other"."""
        return "You" if offer % 2 == self.seats.index(seat) else "Other"


def keep(offer: Sequence[int]) -> str:
    """Returns the name of an offer: `Keep 1-0-2`."""
    return f"{_KEEP} {'-'.join(map(str, offer))}"


def worth(items: Sequence[int], values: Sequence[int]) -> int:
    """Returns the value of so many `items` of each kind."""
    return sum(number * value for number, value in zip(items, values, strict=True))


def _told(numbers: Sequence[int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in zip(_ITEMS, numbers, strict=True))
