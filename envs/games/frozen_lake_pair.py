"""FrozenLake for two: both players must reach the same goal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ragen_envs.frozen_lake.lake import MOVES, Cell, Lake, generate_lake
from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.splits import Split, draw_instance
from ragen_envs.symmetry import canonical_grid

Pair = tuple[Lake, Cell]
"""A map, whose start is the first seat's, and the second seat's start."""


class FrozenLakePair(TextGame):
    """+1 to both when both stand on the goal; the game ends with 0 if either falls into a hole or the moves run out.

    Seats move in turn, and a player on the goal waits there. Players block each other, except on the goal. There are no
    slips.

    Args:
        size: rows and columns (≥ 2).
        p_frozen: chance of a cell to be ice, in (0, 1]; both starts have a path to the goal.
        max_moves: moves that each seat has.

    Raises:
        ValueError: a setting out of its range.
    """

    title = "FrozenLake for two"
    zero_sum = False
    cooperative = True
    has_splits = True

    def __init__(self, size: int = 4, p_frozen: float = 0.8, max_moves: int = 8) -> None:
        if size < 2:
            raise ValueError(f"size must be ≥ 2, got {size}")
        if not 0 < p_frozen <= 1:
            raise ValueError(f"p_frozen must be in (0, 1], got {p_frozen}")
        if max_moves < 1:
            raise ValueError(f"max_moves must be ≥ 1, got {max_moves}")
        self.size, self.p_frozen, self.max_moves = size, p_frozen, max_moves
        self.lake: Lake | None = None
        self.cells: tuple[Cell, ...] = ()
        self.moves: tuple[str, ...] = ()
        """Moves so far, each as the seat and its action, oldest first."""
        self._second: Cell = (0, 0)
        self._turn = 0
        self._left: tuple[int, ...] = ()
        self._forfeited = False

    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        """Draws the map and both starts that (seed, split) names; there is no chance afterwards."""
        self.lake, self._second = draw_instance(seed, split, self._draw, _key)
        self.cells, self.moves, self._turn = (self.lake.start, self._second), (), 0
        self._left, self._forfeited = (self.max_moves,) * 2, False

    def rules(self) -> str:
        """Returns the game in words."""
        return (
            "Two players walk over a frozen lake and win together: reward 1 for both when both stand on the goal, 0 if "
            f"one falls into a hole or needs more than {self.max_moves} moves. They move in turn; who has arrived "
            "waits on the goal. A move against the edge or into the other player does nothing. Symbols: P you, Q the "
            f"other, _ ice, O hole, G goal. Coordinates are row column, counted from 0 at the top left. "
            f"Actions: {', '.join(MOVES)}."
        )

    def observe(self, seat: str) -> str:
        """Returns the map with both players, the coordinates, the moves left, and the other's last move."""
        me, lake = self.seats.index(seat), self._running
        symbols = dict.fromkeys(lake.holes, "O") | {lake.goal: "G", self.cells[1 - me]: "Q", self.cells[me]: "P"}
        cells = range(lake.size)
        lines = ["".join(symbols.get((row, column), "_") for column in cells) for row in cells]
        for name, (row, column) in (("You", self.cells[me]), ("Other", self.cells[1 - me]), ("Goal", lake.goal)):
            lines.append(f"{name} {row} {column}")
        lines.append(f"Moves left: you {self._left[me]}, other {self._left[1 - me]}")
        others = [move.split()[1] for move in self.moves[-1:] if move.split()[0] != seat]
        return "\n".join([*lines, *(f"Other: {move}" for move in others)])

    @property
    def to_move(self) -> tuple[str, ...]:
        """The seat whose turn it is; one that has arrived is skipped."""
        if self.lake is None or self._forfeited or self._won() or self._lost():
            return ()
        return (self.seats[self._turn],)

    def legal_actions(self, seat: str) -> list[str]:
        """Returns all four moves if it is the seat's turn."""
        return list(MOVES) if seat in self.to_move else []

    def outcome(self, seat: str) -> Outcome | None:
        """Returns a win for both or a loss for both; None before the end."""
        if self.lake is None or self.to_move:
            return None
        return Outcome.WIN if self._won() and not self._forfeited else Outcome.LOSS

    def path(self, seat: str) -> tuple[str, ...] | None:
        """Returns a shortest path over the ice from `seat` to the goal, as if it were alone."""
        return self._running.shortest_path(self.cells[self.seats.index(seat)])

    @property
    def instance_key(self) -> str:
        """The canonical form of the map and the second seat's start."""
        return _key((self._running, self._second))

    @property
    def position_key(self) -> str:
        """The map, both positions, the seat to move, and the moves left."""
        rows = " ".join(self._running.rows())
        return f"{rows} {self.cells} {self._turn} {self._left} {self._forfeited}"

    @property
    def _running(self) -> Lake:
        assert self.lake is not None
        return self.lake

    def _won(self) -> bool:
        return all(cell == self._running.goal for cell in self.cells)

    def _lost(self) -> bool:
        fallen = any(cell in self._running.holes for cell in self.cells)
        return fallen or any(
            not left and cell != self._running.goal for left, cell in zip(self._left, self.cells, strict=True)
        )

    def _play(self, moves: Mapping[str, str]) -> dict[str, float]:
        ((seat, action),) = moves.items()
        me, lake = self.seats.index(seat), self._running
        there = lake.moved(self.cells[me], action)
        if there == self.cells[1 - me] and there != lake.goal:
            there = self.cells[me]
        self.cells = tuple(there if index == me else cell for index, cell in enumerate(self.cells))
        self._left = tuple(left - (index == me) for index, left in enumerate(self._left))
        self.moves = (*self.moves, f"{seat} {action}")
        self._turn = me if self.cells[1 - me] == lake.goal else 1 - me
        return dict.fromkeys(self.seats, 1.0) if self._won() else {}

    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        self._forfeited = True
        return {}

    def _draw(self, rng: np.random.Generator) -> Pair | None:
        lake = generate_lake(rng, self.size, self.p_frozen)
        if lake is None:
            return None
        second = divmod(int(rng.integers(self.size * self.size)), self.size)
        taken = second in (lake.start, lake.goal, *lake.holes)
        return None if taken or lake.shortest_path(second) is None else (lake, second)


def _key(pair: Pair) -> str:
    """Returns the canonical text of the map, with T for the second seat's start."""
    lake, (row, column) = pair
    rows = lake.rows()
    rows[row] = f"{rows[row][:column]}T{rows[row][column + 1 :]}"
    return canonical_grid(rows)
