"""What games have in common in which two share a pool of items that they value otherwise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ragen_envs.games.open_spiel import OpenSpielGame

_ITEMS = ("book", "hat", "ball")
_KEEP = "Keep"


class SharingGame(OpenSpielGame):
    """Seats offer in turn, until one agrees to the other's last offer: then each gets its share, else nobody anything.

    More than the other gets is a win; success is something else: an agreement that is worth at least half of the pool,
    which both seats can have at once. Values are private.
    """

    AGREE: ClassVar[str] = "Agree"
    max_turns: int
    """Offers and agreements of both seats together, after which it is over."""

    @property
    @abstractmethod
    def pool(self) -> tuple[int, ...]:
        """How many there are of each kind of item."""

    @abstractmethod
    def values(self, seat: str) -> tuple[int, ...]:
        """Says what one item of each kind is worth to `seat`."""

    @property
    @abstractmethod
    def offers(self) -> tuple[tuple[int, ...], ...]:
        """What each offer keeps of each kind for the seat that made it, oldest first."""

    @property
    @abstractmethod
    def agreed(self) -> bool:
        """Whether the last offer was accepted."""

    def success(self, seat: str) -> bool:
        """Returns the seat has got items worth at least half of the pool."""
        mine = self._returns[self.seats.index(seat)]
        return not self.to_move and not self._forfeited and mine > 0 and 2 * self.share(seat) >= self.whole(seat)

    def secrets(self, seat: str) -> tuple[str, ...]:
        """Returns the seat's values."""
        return (self._values_told(seat),)

    def whole(self, seat: str) -> int:
        """Says what the whole pool is worth to `seat`."""
        return worth(self.pool, self.values(seat))

    def share(self, seat: str) -> int:
        """Says what the last offer leaves to `seat`, by its values; 0 before the first."""
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
        """Says who made, or answers with, the offer of that number, counted from 0."""
        return "You" if offer % 2 == self.seats.index(seat) else "Other"


def keep(offer: Sequence[int]) -> str:
    """Returns the name of an offer: `Keep 1-0-2`."""
    return f"{_KEEP} {'-'.join(map(str, offer))}"


def worth(items: Sequence[int], values: Sequence[int]) -> int:
    """Says what `items` of each kind are worth."""
    return sum(number * value for number, value in zip(items, values, strict=True))


def _told(numbers: Sequence[int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in zip(_ITEMS, numbers, strict=True))
