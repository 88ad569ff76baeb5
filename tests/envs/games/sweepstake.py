"""A game for three that seats leave early: each round, all name a number; who named the lowest alone is out."""

from __future__ import annotations

from collections.abc import Mapping

from ragen_envs.games import Outcome, TextGame
from ragen_envs.splits import Split


class Sweepstake(TextGame):
    """−1 on leaving; the last seats share nothing and win. Ends after three rounds or when one seat is left."""

    title = "Sweepstake"
    seats = ("player_0", "player_1", "player_2")
    zero_sum = False

    def __init__(self) -> None:
        self.alive: tuple[str, ...] = ()
        self.out: tuple[str, ...] = ()
        self.round = 0

    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        self.alive, self.out, self.round = self.seats, (), 1

    def rules(self) -> str:
        return "Each round all name 1, 2 or 3 at once. Who alone named the lowest leaves with -1."

    def observe(self, seat: str) -> str:
        return f"You are {seat}. Round {self.round}. In the game: {', '.join(self.alive)}"

    @property
    def to_move(self) -> tuple[str, ...]:
        return self.alive if len(self.alive) > 1 and 1 <= self.round <= 3 else ()

    def legal_actions(self, seat: str) -> list[str]:
        return ["1", "2", "3"] if seat in self.to_move else []

    def outcome(self, seat: str) -> Outcome | None:
        if seat in self.out:
            return Outcome.LOSS
        return None if self.to_move or not self.round else Outcome.WIN

    @property
    def instance_key(self) -> str:
        return ""

    @property
    def position_key(self) -> str:
        return f"{self.alive} {self.round}"

    def _play(self, moves: Mapping[str, str]) -> dict[str, float]:
        lowest = [seat for seat in moves if moves[seat] == min(moves.values())]
        self.round += 1
        return self._leave(tuple(lowest)) if len(lowest) == 1 else {}

    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        return self._leave(losers)

    def _leave(self, seats: tuple[str, ...]) -> dict[str, float]:
        self.alive = tuple(seat for seat in self.alive if seat not in seats)
        self.out = (*self.out, *seats)
        return dict.fromkeys(seats, -1.0)
