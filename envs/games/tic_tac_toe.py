"""Tic-tac-toe."""

from __future__ import annotations

from typing import ClassVar

from ragen_envs.games.board import EMPTY, BoardGame
from ragen_envs.symmetry import canonical_grid

_ROWS = "ABC"


class TicTacToe(BoardGame):
    """Three in a row on 3×3; actions are cells, A1 (top left) to C3."""

    title: str = "Tic-tac-toe"
    rows: ClassVar[int] = 3
    columns: ClassVar[int] = 3
    in_a_row: ClassVar[int] = 3

    def rules(self) -> str:
        """Returns the game in words."""
        return (
            "Tic-tac-toe: X and O take turns to mark a free cell of a 3×3 board, X first. Three of your marks in a "
            "row, column or diagonal win: reward 1, and -1 for the other. A full board without them is a draw: 0. "
            "Actions: the cell's row and column, A1 (top left) to C3 (bottom right)."
        )

    def describe_for(self, seat: str) -> str:
        """Returns both seats' cells, and the free ones that would give either a line: `mine B2, theirs A1, win none,
        …`.
        """
        mine, other = self.mark(seat), self.other(seat)
        free = self.legal_actions(seat)
        found = {
            "mine": [a for a in self._all_actions() if self._mark_at(a) == mine],
            "theirs": [a for a in self._all_actions() if self._mark_at(a) == self.mark(other)],
            "win": [action for action in free if self.would_win(seat, action)],
            "block": [action for action in free if self.would_win(other, action)],
        }
        return ", ".join(f"{word} {' '.join(cells) or 'none'}" for word, cells in found.items())

    def describe_move(self, seat: str, action: str) -> str:
        """Returns the action with its effect: `win` (gives the seat a line), `block` (keeps the other from one) or
        `play`.
        """
        if self.would_win(seat, action):
            return f"win {action}"
        return f"{'block' if self.would_win(self.other(seat), action) else 'play'} {action}"

    def cell(self, action: str) -> int | None:
        """Returns the cell itself if it is free, else None."""
        return self._index(action) if self._mark_at(action) == EMPTY else None

    def _index(self, action: str) -> int:
        return _ROWS.index(action[0]) * self.columns + int(action[1]) - 1

    def _mark_at(self, action: str) -> str:
        return self.board[self._index(action)]

    def _all_actions(self) -> list[str]:
        return [f"{row}{column}" for row in _ROWS for column in range(1, self.columns + 1)]

    def _drawn(self) -> str:
        lines = [f"{row} {' '.join(self.board[3 * i : 3 * i + 3])}" for i, row in enumerate(_ROWS)]
        return "\n".join(["  1 2 3", *lines])

    def _canonical(self, rows: list[str]) -> str:
        return canonical_grid(rows)
