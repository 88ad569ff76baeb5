"""Connect four."""

from __future__ import annotations

from typing import ClassVar

from ragen_envs.games.board import EMPTY, BoardGame


class ConnectFour(BoardGame):
    """Four in a row on 6×7; a mark falls to the lowest free cell of its column; actions are columns 1 to 7."""

    title: str = "Connect four"
    rows: ClassVar[int] = 6
    columns: ClassVar[int] = 7
    in_a_row: ClassVar[int] = 4

    def rules(self) -> str:
        """Returns the game in words."""
        return (
            "Connect four: X and O take turns to drop a mark into one of 7 columns of a board 6 high, X first; it "
            "falls to the lowest free cell. Four of your marks in a row, column or diagonal win: reward 1, and -1 for "
            "the other. A full board without them is a draw: 0. Actions: the column's number, 1 (left) to 7 (right)."
        )

    def cell(self, action: str) -> int | None:
        """Returns the lowest free cell of the column, or None."""
        column = int(action) - 1
        free = [row for row in range(self.rows) if self.board[row * self.columns + column] == EMPTY]
        return free[-1] * self.columns + column if free else None

    def _all_actions(self) -> list[str]:
        return [str(column) for column in range(1, self.columns + 1)]

    def _drawn(self) -> str:
        lines = [" ".join(self.board[self.columns * i : self.columns * (i + 1)]) for i in range(self.rows)]
        return "\n".join([*lines, " ".join(self._all_actions())])

    def _canonical(self, rows: list[str]) -> str:
        return "\n".join(min(rows, [row[::-1] for row in rows]))
