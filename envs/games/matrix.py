"""MatrixGame: two seats choose at once, round after round, and are paid by a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.splits import Split


class MatrixGame(TextGame):
    """A symmetric game of simultaneous choices, `rounds` times. Rewards come each round; the higher total wins.

    There is one instance and no chance, so no splits. A seat that forfeits is paid the table's lowest payoff for every
    round left, and the other its highest.

    Args:
        rounds: rounds of a game, known to both seats.

    Raises:
        ValueError: fewer than one round.
    """

    actions: ClassVar[tuple[str, ...]]

    def __init__(self, rounds: int = 5) -> None:
        if rounds < 1:
            raise ValueError(f"rounds must be ≥ 1, got {rounds}")
        self.rounds = rounds
        self.history: tuple[tuple[str, str], ...] = ()
        self.totals: tuple[float, float] = (0.0, 0.0)
        self._begun = False
        self._forfeited: tuple[str, ...] = ()

    @abstractmethod
    def payoff(self, own: str, others: str) -> float:
        """Returns the reward of a seat for its own choice against the other's."""

    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        """Starts at round 1."""
        self.history, self.totals, self._forfeited, self._begun = (), (0.0, 0.0), (), True

    def observe(self, seat: str) -> str:
        """Returns the rounds played, each with both choices, and the totals."""
        me = self.seats.index(seat)
        lines = [f"Round {min(len(self.history) + 1, self.rounds)} of {self.rounds}"]
        for number, pair in enumerate(self.history, start=1):
            lines.append(f"Round {number}: you {pair[me]}, other {pair[1 - me]}")
        return "\n".join([*lines, f"Total: you {self.totals[me]:g}, other {self.totals[1 - me]:g}"])

    @property
    def to_move(self) -> tuple[str, ...]:
        """Both seats, until the rounds are played."""
        on = self._begun and not self._forfeited and len(self.history) < self.rounds
        return self.seats if on else ()

    def legal_actions(self, seat: str) -> list[str]:
        """Returns all actions, in every round."""
        return list(self.actions) if seat in self.to_move else []

    def outcome(self, seat: str) -> Outcome | None:
        """Compares the totals; a seat that forfeits loses, even if both do."""
        if self.to_move or not self._begun:
            return None
        if self._forfeited:
            return Outcome.LOSS if seat in self._forfeited else Outcome.WIN
        me = self.seats.index(seat)
        mine, others = self.totals[me], self.totals[1 - me]
        return Outcome.DRAW if mine == others else Outcome.WIN if mine > others else Outcome.LOSS

    @property
    def instance_key(self) -> str:
        """The same for all: there is one instance."""
        return ""

    @property
    def position_key(self) -> str:
        """Rounds played, totals, and the last choices (which players may answer to)."""
        return f"{len(self.history)} {self.totals} {self.history[-1:]} {self._forfeited}"

    def _play(self, moves: Mapping[str, str]) -> dict[str, float]:
        first, second = (moves[seat] for seat in self.seats)
        self.history = (*self.history, (first, second))
        return self._paid({self.seats[0]: self.payoff(first, second), self.seats[1]: self.payoff(second, first)})

    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        left = self.rounds - len(self.history)
        table = [self.payoff(own, others) for own in self.actions for others in self.actions]
        self._forfeited = losers
        return self._paid({seat: left * (min(table) if seat in losers else max(table)) for seat in self.seats})

    def _paid(self, rewards: dict[str, float]) -> dict[str, float]:
        first, second = self.seats
        self.totals = (self.totals[0] + rewards[first], self.totals[1] + rewards[second])
        return rewards
