"""Tic-tac-toe."""

from __future__ import annotations

from typing import ClassVar

from envs.games.board import EMPTY, BoardGame

_ROWS = "ABC"


class TicTacToe(BoardGame):
    """Three in a row on 3×3; actions are cells, A1 (top left) to C3."""

    title: str = "Tic-tac-toe"
    rows: ClassVar[int] = 3
    columns: ClassVar[int] = 3
    in_a_row: ClassVar[int] = 3

    def rules(self) -> str:
        """The game in words."""
        return (
            "Tic-tac-toe: X and O take turns to mark a free cell of a 3×3 board, X first. Three of your marks in a "
            "row, column or diagonal win: reward 1, and -1 for the other. A full board without them is a draw: 0. "
            "Actions: the cell's row and column, A1 (top left) to C3 (bottom right)."
        )

    def cell(self, action: str) -> int | None:
        """The cell itself, if it is free."""
        cell = _ROWS.index(action[0]) * self.columns + int(action[1]) - 1
        return cell if self.board[cell] == EMPTY else None

    def _all_actions(self) -> list[str]:
        return [f"{row}{column}" for row in _ROWS for column in range(1, self.columns + 1)]

    def _drawn(self) -> str:
        lines = [f"{row} {' '.join(self.board[3 * i : 3 * i + 3])}" for i, row in enumerate(_ROWS)]
        return "\n".join(["  1 2 3", *lines])
