"""A frozen lake: its holes, start and goal, and the shortest path between them. Immutable, no randomness."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from ragen_envs.symmetry import canonical_grid

Cell = tuple[int, int]
"""(row, column), counted from 0 at the top left."""

MOVES: dict[str, Cell] = {"Left": (0, -1), "Down": (1, 0), "Right": (0, 1), "Up": (-1, 0)}
"""Steps by action, in the order of Gymnasium's action numbers."""


@dataclass(frozen=True)
class Lake:
    """One map; `holes` is sorted, so equal maps compare equal."""

    size: int
    start: Cell
    goal: Cell
    holes: tuple[Cell, ...]

    def moved(self, cell: Cell, move: str) -> Cell:
        """Returns the cell that `move` leads to without a slip; the edge holds the player back."""
        row, column = cell[0] + MOVES[move][0], cell[1] + MOVES[move][1]
        return min(max(row, 0), self.size - 1), min(max(column, 0), self.size - 1)

    def shortest_path(self, cell: Cell) -> tuple[str, ...] | None:
        """Returns a shortest path from `cell` to the goal that touches no hole, as if no move slipped; None if there is
        none.

        Deterministic: of equally short paths the first one in the order Left, Down, Right, Up.
        """
        paths: dict[Cell, tuple[str, ...]] = {cell: ()}
        frontier = deque([cell])
        while frontier:
            here = frontier.popleft()
            if here == self.goal:
                return paths[here]
            for move in MOVES:
                there = self.moved(here, move)
                if there not in paths and there not in self.holes:
                    paths[there] = (*paths[here], move)
                    frontier.append(there)
        return None

    def rows(self) -> list[str]:
        """Returns the map in Gymnasium's letters: S start, F frozen, H hole, G goal."""
        letters = dict.fromkeys(self.holes, "H") | {self.start: "S", self.goal: "G"}
        return ["".join(letters.get((r, c), "F") for c in range(self.size)) for r in range(self.size)]

    @property
    def key(self) -> str:
        """Canonical text, the same for turned and mirrored maps: a slip goes to either side of a move with equal
        chance.
        """
        return canonical_grid(self.rows())

    def grid(self, player: Cell) -> str:
        """Returns the map, a row a line: P player, _ ice, O hole, G goal, X player in a hole, √ player on the goal."""
        return "\n".join("".join(self._symbol((r, c), player) for c in range(self.size)) for r in range(self.size))

    def coordinates(self, player: Cell) -> str:
        """Returns the rows and columns of the player, the goal and each hole, as text."""
        lines = [("Player", (player,)), ("Goal", (self.goal,)), ("Hole", self.holes)]
        return "\n".join(f"{name} {', '.join(f'{r} {c}' for r, c in cells) or 'none'}" for name, cells in lines)

    def _symbol(self, cell: Cell, player: Cell) -> str:
        if cell in self.holes:
            return "X" if cell == player else "O"
        if cell == self.goal:
            return "√" if cell == player else "G"
        return "P" if cell == player else "_"


def generate_lake(rng: np.random.Generator, size: int, p_frozen: float) -> Lake | None:
    """Returns a random map with start and goal on two different cells, or None if holes cut them off from each
    other.
    """
    start, goal = (divmod(int(place), size) for place in rng.permutation(size * size)[:2])
    melted = rng.random((size, size)) >= p_frozen
    holes = tuple(cell for r, c in np.argwhere(melted) if (cell := (int(r), int(c))) not in (start, goal))
    lake = Lake(size, start, goal, holes)
    return lake if lake.shortest_path(start) is not None else None
