"""Chess, by the rules of python-chess."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from ragen_envs.games.extras import needed
from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.splits import Split, draw_instance

PIECE_VALUES = {1: 1, 2: 3, 3: 3, 4: 5, 5: 9, 6: 0}
"""Values in pawns, by python-chess's number of the piece: pawn, knight, bishop, rook, queen, king."""


class Chess(TextGame):
    """+1 for a win, −1 for a loss, 0 for a draw. Draws by repetition and by fifty moves need no claim.

    Actions are listed in UCI form (e2e4, e7e8q), which is unique also case-insensitively; standard algebraic notation
    (Nf3, exd5, O-O, e8=Q) is understood, too. An instance is an opening of random moves, split by content.

    Args:
        opening_moves: moves made at random before the start, of both sides together; 0: the usual start, no splits.
        max_moves: moves of both sides together, after which the game is drawn.
        start: position to start from, in Forsyth-Edwards notation; None: the usual one.

    Raises:
        ValueError: a setting out of its range, a position that cannot be, or chess is not installed.
    """

    title = "Chess"

    def __init__(self, opening_moves: int = 0, max_moves: int = 200, start: str | None = None) -> None:
        self._chess: Any = needed("chess", "chess", "chess")
        if opening_moves < 0:
            raise ValueError(f"opening_moves must be ≥ 0, got {opening_moves}")
        if max_moves < 1:
            raise ValueError(f"max_moves must be ≥ 1, got {max_moves}")
        self._first = _position(self._chess, start)
        self.opening_moves, self.max_moves, self.has_splits = opening_moves, max_moves, opening_moves > 0
        self.board: Any = None
        self._legal: tuple[str, ...] = ()
        """Legal moves of whoever is to move; empty when the game is over."""
        self._opening: tuple[str, ...] = ()
        self._loser: str | None = None

    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        """Makes the opening that (seed, split) names; there is no chance afterwards."""
        self._opening = draw_instance(seed, split, self._draw_opening, self._key_of) if self.has_splits else ()
        self._set_up(self._opening)

    def rules(self) -> str:
        """Returns the game in words."""
        return (
            "Chess: White and Black move in turn. Reward: 1 for checkmate, -1 for being checkmated, 0 for a draw "
            f"(stalemate, threefold repetition, fifty moves, too few pieces, or {self.max_moves} moves in all). The "
            "board shows White's pieces as capitals. Actions: a move as from-square and to-square, such as e2e4, with "
            "the piece to promote to, such as e7e8q; castling is the king's move. Nf3, exd5, O-O are understood, too."
        )

    def observe(self, seat: str) -> str:
        """Returns the seat's colour, the board, who moves and may castle (as in FEN), check, and the other's last
        move.
        """
        lines = [f"You are {self._colour(seat)}", *self._drawn()]
        lines.append(" ".join(self.board.fen().split()[1:4]))
        if self.board.is_check():
            lines.append(f"{'White' if self.board.turn else 'Black'} is in check")
        if self.board.move_stack and self.board.turn == self._is_white(seat):
            lines.append(f"{self._colour(self.other(seat))} played {self.board.peek().uci()}")
        return "\n".join(lines)

    @property
    def to_move(self) -> tuple[str, ...]:
        """White and Black in turn."""
        return (self.seats[0 if self.board.turn else 1],) if self._legal else ()

    def legal_actions(self, seat: str) -> list[str]:
        """Returns all legal moves in UCI form."""
        return list(self._legal) if seat in self.to_move else []

    def parse_action(self, seat: str, text: str) -> str | None:
        """Reads a move in UCI form (any case) or in standard algebraic notation; None if it is not legal."""
        found = super().parse_action(seat, text)
        if found is None and seat in self.to_move:
            try:
                found = self.board.parse_san(text.strip()).uci()
            except ValueError:
                return None
        return found if found in self._legal else None

    def outcome(self, seat: str) -> Outcome | None:
        """Returns a win or loss for mate (or a forfeit), a draw for every other end; None before it."""
        if self._loser:
            return Outcome.LOSS if seat == self._loser else Outcome.WIN
        if self.board is None or self._legal:
            return None
        if not self.board.is_checkmate():
            return Outcome.DRAW
        return Outcome.LOSS if self.board.turn == self._is_white(seat) else Outcome.WIN

    @property
    def instance_key(self) -> str:
        """The position after the opening, without clocks, whatever the order of its moves."""
        return self._key_of(self._opening)

    @property
    def position_key(self) -> str:
        """All moves of the game, because repetitions count."""
        return f"{' '.join(move.uci() for move in self.board.move_stack)} {self._loser}"

    def _play(self, moves: Mapping[str, str]) -> dict[str, float]:
        ((seat, action),) = moves.items()
        self.board = self.board.copy()
        self._push(action)
        return {seat: 1.0, self.other(seat): -1.0} if self.board.is_checkmate() else {}

    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        self._loser, self._legal = losers[0], ()
        return {losers[0]: -1.0, self.other(losers[0]): 1.0}

    def _key_of(self, opening: tuple[str, ...]) -> str:
        board = self._first.copy()
        for move in opening:
            board.push_uci(move)
        return str(board.epd())

    def _set_up(self, opening: tuple[str, ...]) -> None:
        self._loser, self.board = None, self._first.copy()
        self._legal = tuple(move.uci() for move in self.board.legal_moves)
        for move in opening:
            self._push(move)

    def _push(self, action: str) -> None:
        board = self.board
        board.push_uci(action)
        drawn = board.halfmove_clock >= 100 or board.is_insufficient_material() or board.is_repetition(3)
        over = drawn or len(board.move_stack) >= self.opening_moves + self.max_moves
        self._legal = () if over else tuple(move.uci() for move in board.legal_moves)

    def _is_white(self, seat: str) -> bool:
        return seat == self.seats[0]

    def _colour(self, seat: str) -> str:
        return "White" if self._is_white(seat) else "Black"

    def _drawn(self) -> list[str]:
        rows = str(self.board).splitlines()
        return [*(f"{8 - i} {row}" for i, row in enumerate(rows)), "  a b c d e f g h"]

    def _draw_opening(self, rng: np.random.Generator) -> tuple[str, ...] | None:
        game = copy.copy(self)
        game._set_up(())
        for _ in range(self.opening_moves):
            if not game._legal:
                return None
            game._push(game._legal[int(rng.integers(len(game._legal)))])
        return tuple(move.uci() for move in game.board.move_stack) if game._legal else None


def _position(chess: Any, start: str | None) -> Any:
    try:
        board = chess.Board() if start is None else chess.Board(start)
    except ValueError as error:
        raise ValueError(f"start must be a position in Forsyth-Edwards notation, got {start!r}: {error}") from None
    if not board.is_valid() or board.is_game_over():
        raise ValueError(f"start must be a position that can be and is not over, got {start!r}")
    return board
