"""A Sokoban room: a position, and how a move changes it. Immutable, hashable, no randomness."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ragen_envs.symmetry import canonical_grid

Cell = tuple[int, int]
"""(row, column), counted from 0 at the top left."""

MOVES: dict[str, Cell] = {"Up": (-1, 0), "Down": (1, 0), "Left": (0, -1), "Right": (0, 1)}


@dataclass(frozen=True)
class Room:
    """One position. Boxes and targets are sorted, so equal positions compare equal."""

    height: int
    width: int
    floor: frozenset[Cell]
    targets: tuple[Cell, ...]
    boxes: tuple[Cell, ...]
    player: Cell

    @property
    def solved(self) -> bool:
        """Whether all boxes stand on targets."""
        return self.boxes == self.targets

    @property
    def boxes_on_targets(self) -> int:
        """Number of boxes on targets."""
        return len(set(self.boxes) & set(self.targets))

    def moved(self, move: str) -> Room:
        """Returns the room after `move`: a step, a push, or the same room if neither is possible."""
        ahead = shift(self.player, MOVES[move])
        if ahead not in self.floor:
            return self
        if ahead not in self.boxes:
            return replace(self, player=ahead)
        behind = shift(ahead, MOVES[move])
        if behind not in self.floor or behind in self.boxes:
            return self
        boxes = tuple(sorted(behind if box == ahead else box for box in self.boxes))
        return replace(self, player=ahead, boxes=boxes)

    def grid(self) -> str:
        """Returns the room, a row a line: # wall, _ floor, O target, X box, √ box on target, P player, S player on
        target.
        """
        return "\n".join("".join(self._symbol((r, c)) for c in range(self.width)) for r in range(self.height))

    @property
    def reachable(self) -> frozenset[Cell]:
        """Cells that the player can reach without a push, its own included."""
        free = self.floor.difference(self.boxes)
        seen, frontier = {self.player}, [self.player]
        while frontier:
            cell = frontier.pop()
            for step in MOVES.values():
                there = shift(cell, step)
                if there in free and there not in seen:
                    seen.add(there)
                    frontier.append(there)
        return frozenset(seen)

    @property
    def key(self) -> str:
        """Canonical text, the same for turned and mirrored rooms, and for all cells between which the player can walk.

        The grid in the first of its 8 forms, with P (on a target: S) on every cell that the player can walk to.
        """
        reachable, boxes, targets = self.reachable, set(self.boxes), set(self.targets)
        rows = []
        for row in range(self.height):
            line = ""
            for column in range(self.width):
                cell = row, column
                if cell not in self.floor:
                    line += "#"
                elif cell in boxes:
                    line += "√" if cell in targets else "X"
                elif cell in reachable:
                    line += "S" if cell in targets else "P"
                else:
                    line += "O" if cell in targets else "_"
            rows.append(line)
        return canonical_grid(rows)

    def coordinates(self) -> str:
        """Returns the rows and columns of the player, each box and each target, as text."""
        lines = [("Player", (self.player,)), ("Box", self.boxes), ("Target", self.targets)]
        return "\n".join(f"{name} {', '.join(f'{r} {c}' for r, c in cells)}" for name, cells in lines)

    def _symbol(self, cell: Cell) -> str:
        on_target = cell in self.targets
        if cell not in self.floor:
            return "#"
        if cell == self.player:
            return "S" if on_target else "P"
        if cell in self.boxes:
            return "√" if on_target else "X"
        return "O" if on_target else "_"


def shift(cell: Cell, step: Cell) -> Cell:
    """Returns the cell one `step` from `cell`."""
    return cell[0] + step[0], cell[1] + step[1]
