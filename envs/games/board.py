"""BoardGame: two seats put marks on a board in turn until one has a line of them."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.splits import Split, draw_instance

EMPTY = "."
_MARKS = "XO"
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
"""Steps along a row, a column and both diagonals; their opposites give the same lines."""


class BoardGame(TextGame):
    """+1 for the seat that first has `in_a_row` marks in a line, −1 for the other; 0 for a full board without one.

    An instance is an opening: the moves that were made, uniformly at random, before the seats begin. Without opening
    moves there is one instance and no splits; with them, openings are split by content.

    Args:
        opening_moves: moves made before the start; an opening never ends the game.

    Raises:
        ValueError: a negative number, or one that leaves no open game.
    """

    rows: ClassVar[int]
    columns: ClassVar[int]
    in_a_row: ClassVar[int]

    def __init__(self, opening_moves: int = 0) -> None:
        if not 0 <= opening_moves < self.rows * self.columns:
            raise ValueError(f"opening_moves must be 0…{self.rows * self.columns - 1}, got {opening_moves}")
        self.opening_moves = opening_moves
        self.has_splits = opening_moves > 0
        self.board = ""
        self.moves: tuple[str, ...] = ()
        self._opening: tuple[str, ...] = ()
        self._winner: str | None = None

    @abstractmethod
    def cell(self, action: str) -> int | None:
        """Returns the cell on which the mark of `action` lands now; None if the action is not legal."""

    @abstractmethod
    def _all_actions(self) -> list[str]:
        """Returns the names of all actions of an empty board."""

    @abstractmethod
    def _drawn(self) -> str:
        """Returns the board as lines of text."""

    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        """Makes the opening that (seed, split) names; there is no chance afterwards."""
        if not self.has_splits:
            self._set_up(())
            return
        self._set_up(draw_instance(seed, split, self._draw_opening, self._key_of))

    def mark(self, seat: str) -> str:
        """Returns X for the seat that moves first, O for the other."""
        return _MARKS[self.seats.index(seat)]

    def observe(self, seat: str) -> str:
        """Returns the seat's mark, the board, and the other's last move."""
        lines = [f"You are {self.mark(seat)}", self._drawn()]
        if self.moves and self._last_mover() != seat:
            lines.append(f"{self.mark(self.other(seat))} played {self.moves[-1]}")
        return "\n".join(lines)

    @property
    def to_move(self) -> tuple[str, ...]:
        """X and O in turn."""
        if self._winner is not None or EMPTY not in self.board:
            return ()
        return (self.seats[len(self.moves) % 2],)

    def legal_actions(self, seat: str) -> list[str]:
        """Returns the actions whose mark finds a free cell."""
        if seat not in self.to_move:
            return []
        return [action for action in self._all_actions() if self.cell(action) is not None]

    def outcome(self, seat: str) -> Outcome | None:
        """Returns a win or loss for a line (or a forfeit), a draw for a full board; None before the end."""
        if self._winner is not None:
            return Outcome.WIN if seat == self._winner else Outcome.LOSS
        return Outcome.DRAW if self.board and EMPTY not in self.board else None

    def would_win(self, seat: str, action: str) -> bool:
        """Returns whether `seat` would have a line if it could take `action` now, whoever is to move."""
        cell = self.cell(action)
        if cell is None:
            return False
        marked = copy.copy(self)
        marked.board = self._with_mark(cell, seat)
        return marked._has_row_through(cell)

    @property
    def instance_key(self) -> str:
        """The board after the opening in canonical form, whatever the order of its moves and however it is turned."""
        return self._key_of(self._opening)

    @property
    def position_key(self) -> str:
        """The board: the number of marks says whose turn it is."""
        return self.board

    def _play(self, moves: Mapping[str, str]) -> dict[str, float]:
        ((seat, action),) = moves.items()
        cell = self.cell(action)
        assert cell is not None
        self.board = self._with_mark(cell, seat)
        self.moves = (*self.moves, action)
        return self._won_by(seat) if self._has_row_through(cell) else {}

    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        return self._won_by(self.other(losers[0]))

    def _won_by(self, seat: str) -> dict[str, float]:
        self._winner = seat
        return {seat: 1.0, self.other(seat): -1.0}

    def _with_mark(self, cell: int, seat: str) -> str:
        return self.board[:cell] + self.mark(seat) + self.board[cell + 1 :]

    def _key_of(self, opening: tuple[str, ...]) -> str:
        game = copy.copy(self)
        game._set_up(opening)
        rows = [game.board[self.columns * row : self.columns * (row + 1)] for row in range(self.rows)]
        return self._canonical(rows)

    @abstractmethod
    def _canonical(self, rows: list[str]) -> str:
        """Returns one text for all boards that the game's symmetries make of `rows`."""

    def _last_mover(self) -> str:
        return self.seats[(len(self.moves) - 1) % 2]

    def _set_up(self, opening: tuple[str, ...]) -> None:
        self.board, self.moves, self._winner = EMPTY * (self.rows * self.columns), (), None
        for action in opening:
            self._play({self.seats[len(self.moves) % 2]: action})
        self._opening = opening

    def _draw_opening(self, rng: np.random.Generator) -> tuple[str, ...] | None:
        self._set_up(())
        for _ in range(self.opening_moves):
            if not self.to_move:
                return None
            legal = self.legal_actions(self.to_move[0])
            self._play({self.to_move[0]: legal[int(rng.integers(len(legal)))]})
        return self.moves if self.to_move else None

    def _has_row_through(self, cell: int) -> bool:
        row, column = divmod(cell, self.columns)
        return any(
            1 + self._run(row, column, down, right) + self._run(row, column, -down, -right) >= self.in_a_row
            for down, right in _DIRECTIONS
        )

    def _run(self, row: int, column: int, down: int, right: int) -> int:
        """Returns how many marks like the one at (row, column) follow it in one direction."""
        mark, length = self.board[row * self.columns + column], 0
        while True:
            row, column = row + down, column + right
            inside = 0 <= row < self.rows and 0 <= column < self.columns
            if not inside or self.board[row * self.columns + column] != mark:
                return length
            length += 1
