"""Bargaining: share a pool of items with somebody who values them differently (deal or no deal)."""

from __future__ import annotations

from ragen_envs.games.sharing import SharingGame, keep


class Bargaining(SharingGame):
    """OpenSpiel's bargaining, after Lewis et al. (2017): a seat's reward is the value to it of the items that it gets.

    The whole pool is worth 10 to each seat, but the values of its items differ and are private. Seats say in turn what
    they want to keep, until one agrees; without agreement after `max_turns` turns nobody gets anything.

    Args:
        max_turns: turns of both seats together.

    Raises:
        ValueError: fewer than two turns, or open-spiel is not installed.
    """

    def __init__(self, max_turns: int = 10) -> None:
        if max_turns < 2:
            raise ValueError(f"max_turns must be ≥ 2, got {max_turns}")
        super().__init__(f"bargaining(max_turns={max_turns})")
        self.max_turns = max_turns
        self._keeps: dict[int, str] = {}

    def rules(self) -> str:
        """Returns the game in words."""
        return (
            "Bargaining: two players share books, hats and balls. The whole pool is worth 10 to each, but each has its "
            "own values, which the other does not know. In turn, say what you want to keep: Keep 1-0-2 is 1 book, no "
            f"hat, 2 balls for you, the rest for the other. {self.AGREE} accepts the other's offer. After "
            f"{self.max_turns} turns without agreement both get 0. Your reward is what you get, by your values. "
            f"Actions: Keep books-hats-balls, {self.AGREE}."
        )

    def observe(self, seat: str) -> str:
        """Returns the pool, the seat's values, and all offers."""
        lines = [self._who(seat), self._pool_told(), self._values_told(seat)]
        lines += [f"{self._speaker(seat, number)}: {keep(offer)}" for number, offer in enumerate(self.offers)]
        if self.agreed:
            lines.append(f"{self._speaker(seat, len(self.offers))}: {self.AGREE}")
        return "\n".join(lines)

    @property
    def pool(self) -> tuple[int, ...]:
        """Number of items of each kind."""
        return tuple(self._state.instance().pool)

    def values(self, seat: str) -> tuple[int, ...]:
        """Returns the value of one item of each kind to `seat`."""
        return tuple(self._state.instance().values[self.seats.index(seat)])

    @property
    def offers(self) -> tuple[tuple[int, ...], ...]:
        """Items of each kind that each offer keeps for the seat that made it, oldest first."""
        return tuple(tuple(offer.quantities) for offer in self._state.offers())

    @property
    def agreed(self) -> bool:
        """Whether the last offer was accepted."""
        return len(self._state.history()) > 1 and self._state.history()[-1] == self._state.agree_action()

    def _action_name(self, index: int, action: int) -> str:
        if action == self._state.agree_action():
            return self.AGREE
        if action not in self._keeps:  # the same in every game
            self._keeps[action] = keep(self._state.child(action).offers()[-1].quantities)
        return self._keeps[action]
