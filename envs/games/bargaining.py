"""Bargaining: share a pool of items with somebody who values them otherwise (deal or no deal)."""

from __future__ import annotations

from typing import ClassVar

from envs.games.open_spiel import OpenSpielGame

_ITEMS = ("book", "hat", "ball")
_WORTH = 10


class Bargaining(OpenSpielGame):
    """OpenSpiel's bargaining, after Lewis et al. (2017): the reward is what the items that a seat gets are worth to it.

    The whole pool is worth 10 to each seat, but the values of its items differ and are private. Seats say in turn what
    they want to keep, until one agrees; without agreement after `max_turns` turns nobody gets anything. More than the
    other gets is a win; success is something else: an agreement that is worth at least half of the pool, which both
    seats can have at once.

    Args:
        max_turns: turns of both seats together.

    Raises:
        ValueError: fewer than two turns, or open-spiel is not installed.
    """

    AGREE: ClassVar[str] = "Agree"

    def __init__(self, max_turns: int = 10) -> None:
        if max_turns < 2:
            raise ValueError(f"max_turns must be ≥ 2, got {max_turns}")
        super().__init__(f"bargaining(max_turns={max_turns})")
        self.max_turns = max_turns
        self._keeps: dict[int, str] = {}

    def rules(self) -> str:
        """The game in words."""
        return (
            "Bargaining: two players share books, hats and balls. The whole pool is worth 10 to each, but each has its "
            "own values, which the other does not know. In turn, say what you want to keep: Keep 1-0-2 is 1 book, no "
            f"hat, 2 balls for you, the rest for the other. {self.AGREE} accepts the other's offer. After "
            f"{self.max_turns} turns without agreement both get 0. Your reward is what you get, by your values. "
            f"Actions: Keep books-hats-balls, {self.AGREE}."
        )

    def observe(self, seat: str) -> str:
        """The pool, the seat's values, and all offers."""
        me = self.seats.index(seat)
        lines = [
            f"You play {'first' if me == 0 else 'second'}",
            f"Pool: {_told(self.pool)}",
            f"Your values: {_told(self.values(seat))}",
        ]
        for number, offer in enumerate(self.offers):
            lines.append(f"{'You' if number % 2 == me else 'Other'}: {_keep(offer)}")
        if self.agreed:
            lines.append(f"{'Other' if len(self.offers) % 2 != me else 'You'}: {self.AGREE}")
        return "\n".join(lines)

    def secrets(self, seat: str) -> tuple[str, ...]:
        """The seat's values."""
        return (f"Your values: {_told(self.values(seat))}",)

    def success(self, seat: str) -> bool:
        """The seat has got items worth at least half of the pool."""
        mine = self._returns[self.seats.index(seat)]
        return not self.to_move and not self._forfeited and mine > 0 and 2 * self.share(seat) >= _WORTH

    @property
    def pool(self) -> tuple[int, ...]:
        """How many there are of each kind of item."""
        return tuple(self._state.instance().pool)

    def values(self, seat: str) -> tuple[int, ...]:
        """What one item of each kind is worth to `seat`."""
        return tuple(self._state.instance().values[self.seats.index(seat)])

    @property
    def offers(self) -> tuple[tuple[int, ...], ...]:
        """What each offer keeps of each kind for the seat that made it, oldest first."""
        return tuple(tuple(offer.quantities) for offer in self._state.offers())

    @property
    def agreed(self) -> bool:
        """Whether the last offer was accepted."""
        return len(self._state.history()) > 1 and self._state.history()[-1] == self._state.agree_action()

    def share(self, seat: str) -> int:
        """What the last offer leaves to `seat`, by its values."""
        if not self.offers:
            return 0
        me, offer = self.seats.index(seat), self.offers[-1]
        mine = (len(self.offers) - 1) % 2 == me
        kept = offer if mine else tuple(all_of - theirs for all_of, theirs in zip(self.pool, offer, strict=True))
        return worth(kept, self.values(seat))

    def kept(self, action: str) -> tuple[int, ...]:
        """The items of each kind that the offer called `action` keeps."""
        return tuple(int(number) for number in action.removeprefix("Keep ").split("-"))

    def _action_name(self, index: int, action: int) -> str:
        if action == self._state.agree_action():
            return self.AGREE
        if action not in self._keeps:  # the same in every game
            self._keeps[action] = _keep(tuple(self._state.child(action).offers()[-1].quantities))
        return self._keeps[action]


def worth(items: tuple[int, ...], values: tuple[int, ...]) -> int:
    """What `items` of each kind are worth."""
    return sum(number * value for number, value in zip(items, values, strict=True))


def _keep(offer: tuple[int, ...]) -> str:
    return f"Keep {'-'.join(map(str, offer))}"


def _told(numbers: tuple[int, ...]) -> str:
    return ", ".join(f"{name} {number}" for name, number in zip(_ITEMS, numbers, strict=True))
