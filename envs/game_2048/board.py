"""A board of 2048: how it slides and what a merge pays. Immutable; randomness comes from the generator passed in."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ragen_envs.symmetry import canonical_grid

SIDE = 4
"""Rows and columns of the board: the game's own size."""
Board = tuple[int, ...]
"""The 16 tiles row by row; 0 is empty."""
MOVES = ("Up", "Down", "Left", "Right")
_FOUR_PROBABILITY = 0.1
"""Share of new tiles that are 4 and not 2: the game's own rule."""


def moved(board: Board, move: str) -> tuple[Board, float]:
    """Returns the board after `move` (the same if nothing slides), and log2(merged tile + 1) summed over its merges."""
    if move in ("Left", "Right"):
        lines = [board[SIDE * row : SIDE * (row + 1)] for row in range(SIDE)]
    else:
        lines = [board[column::SIDE] for column in range(SIDE)]
    backwards = move in ("Right", "Down")
    slid = [_slid(line[::-1] if backwards else line) for line in lines]
    after = [line[::-1] if backwards else line for line, _ in slid]
    if move in ("Up", "Down"):
        after = list(zip(*after, strict=True))
    return tuple(tile for line in after for tile in line), sum(paid for _, paid in slid)


@lru_cache(maxsize=65_536)
def _slid(line: Board) -> tuple[Board, float]:
    """Returns `line` pushed to its front; each tile merges once."""
    tiles, merged, paid = [tile for tile in line if tile], [], 0.0
    while tiles:
        tile = tiles.pop(0)
        if tiles and tiles[0] == tile:
            tile += tiles.pop(0)
            paid += math.log2(tile + 1)
        merged.append(tile)
    return (*merged, *(0,) * (len(line) - len(merged))), paid


def spawned(board: Board, rng: np.random.Generator) -> Board:
    """Returns the board with a 2 (or, one time in ten, a 4) on a random empty cell."""
    empty = [cell for cell, tile in enumerate(board) if not tile]
    cell = empty[int(rng.integers(len(empty)))]
    return (*board[:cell], 4 if rng.random() < _FOUR_PROBABILITY else 2, *board[cell + 1 :])


def stuck(board: Board) -> bool:
    """Returns whether no move changes anything."""
    return all(moved(board, move)[0] == board for move in MOVES)


def key(board: Board) -> str:
    """Returns the canonical text, the same for turned and mirrored boards."""
    letters = "".join(chr(ord("a") + tile.bit_length()) if tile else "." for tile in board)
    return canonical_grid([letters[SIDE * row : SIDE * (row + 1)] for row in range(SIDE)])


def start_board(rng: np.random.Generator, warm_up: int) -> Board | None:
    """Returns the board after two tiles and `warm_up` random moves that change something; None if it got stuck."""
    board = spawned(spawned((0,) * SIDE**2, rng), rng)
    for _ in range(warm_up):
        following = [after for move in MOVES if (after := moved(board, move)[0]) != board]
        if not following:
            return None
        board = spawned(following[int(rng.integers(len(following)))], rng)
    return None if stuck(board) else board


_WEIGHTS = tuple(
    0.5 ** (SIDE * row + (column if row % 2 == 0 else SIDE - 1 - column))
    for row in range(SIDE)
    for column in range(SIDE)
)
"""Weights of the cells: a snake from the top left, along which large tiles can merge one after the other."""


@lru_cache(maxsize=65_536)
def good_move(board: Board) -> str | None:
    """Returns the move of a two-move expectimax that keeps large tiles in a snake; None if the board is stuck."""
    best, chosen = -math.inf, None
    for move in MOVES:
        after, _ = moved(board, move)
        if after != board and (value := _expected(after)) > best:
            best, chosen = value, move
    return chosen


def _expected(board: Board) -> float:
    """Returns the value of the best next board, averaged over the cells on which a 2 may appear."""
    values = []
    for cell, tile in enumerate(board):
        if not tile:
            grown = (*board[:cell], 2, *board[cell + 1 :])
            values.append(max((_worth(moved(grown, move)[0]) for move in MOVES), default=0.0))
    return sum(values) / len(values)


def _worth(board: Board) -> float:
    # An empty cell is worth a tenth of the largest tile in the corner: enough not to fill up, too little to scatter.
    largest = max(board)
    return sum(weight * tile for weight, tile in zip(_WEIGHTS, board, strict=True)) + 0.1 * largest * board.count(0)
