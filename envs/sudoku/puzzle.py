"""Sudoku puzzles with one solution: generated locally, solved by backtracking."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product

import numpy as np

Grid = tuple[int, ...]
"""The size · size digits row by row; 0 is an empty cell."""
EXACT_FORMS = 4
"""Largest size whose keys are made by trying all forms: 128 for 4×4, but 3.4 million for 9×9."""
_REFINEMENTS = 4
"""Rounds of colour refinement: any two cells are at most two steps apart, and two more rounds are chosen freely."""


@dataclass(frozen=True)
class Puzzle:
    """The given digits, and the only solution."""

    size: int
    givens: Grid
    solution: Grid

    @property
    def key(self) -> str:
        """Canonical text, the same for puzzles that differ by renamed digits, turns and swapped lines."""
        return _exact_key(self) if self.size <= EXACT_FORMS else _refined_key(self)


@lru_cache(maxsize=4)
def peers(size: int) -> tuple[tuple[int, ...], ...]:
    """Returns for each cell the other cells of its row, column and box."""
    box = round(size**0.5)
    units = [(cell // size, cell % size, cell // size // box * box + cell % size // box) for cell in range(size**2)]
    return tuple(
        tuple(other for other, theirs in enumerate(units) if other != cell and any(map(int.__eq__, own, theirs)))
        for cell, own in enumerate(units)
    )


def allowed(size: int, grid: Grid | list[int], cell: int) -> list[int]:
    """Returns the digits that no peer of `cell` holds."""
    taken = {grid[other] for other in peers(size)[cell]}
    return [digit for digit in range(1, size + 1) if digit not in taken]


def solutions(size: int, grid: Grid, limit: int, rng: np.random.Generator | None = None) -> list[Grid]:
    """Returns up to `limit` ways to fill `grid`; digits are tried in order, or in the order that `rng` draws."""
    found: list[Grid] = []
    _fill(size, list(grid), limit, rng, found)
    return found


def _fill(size: int, grid: list[int], limit: int, rng: np.random.Generator | None, found: list[Grid]) -> None:
    empty = [(len(digits := allowed(size, grid, cell)), cell, digits) for cell in range(size**2) if not grid[cell]]
    if not empty:
        found.append(tuple(grid))
        return
    _, cell, digits = min(empty)
    for digit in digits if rng is None else rng.permutation(digits).tolist():
        grid[cell] = digit
        _fill(size, grid, limit, rng, found)
        if len(found) == limit:
            break
    grid[cell] = 0


def generate_puzzle(rng: np.random.Generator, size: int, blanks: int) -> Puzzle | None:
    """Draws a puzzle with one solution and `blanks` empty cells; None if this draw cannot have so many."""
    solution = solutions(size, (0,) * size**2, 1, rng)[0]
    grid, left = list(solution), blanks
    for cell in rng.permutation(size**2).tolist():
        if not left:
            break
        digit, grid[cell] = grid[cell], 0
        if _another(size, grid, cell, digit):
            grid[cell] = digit
        else:
            left -= 1
    return None if left else Puzzle(size, tuple(grid), solution)


def _another(size: int, grid: list[int], cell: int, digit: int) -> bool:
    """Returns whether `grid` can be filled with a digit other than `digit` in `cell`."""
    for other in allowed(size, grid, cell):
        if other != digit and solutions(size, (*grid[:cell], other, *grid[cell + 1 :]), 1):
            return True
    return False


@lru_cache(maxsize=2)
def _line_orders(size: int) -> tuple[tuple[int, ...], ...]:
    """Returns every order of rows (or columns) that keeps bands together."""
    box = round(size**0.5)
    bands = [list(permutations(range(box * band, box * band + box))) for band in range(box)]
    return tuple(
        tuple(line for band in order for line in band) for chosen in product(*bands) for order in permutations(chosen)
    )


def _exact_key(puzzle: Puzzle) -> str:
    size = puzzle.size
    rows = [puzzle.givens[size * row : size * (row + 1)] for row in range(size)]
    forms = []
    for lines in (rows, list(zip(*rows, strict=True))):
        for order, columns in product(_line_orders(size), repeat=2):
            names: dict[int, int] = {0: 0}
            forms.append("".join(str(names.setdefault(lines[r][c], len(names))) for r in order for c in columns))
    return min(forms)


def _refined_key(puzzle: Puzzle) -> str:
    """Returns the colours of cells, refined by those of their row, column, box and equal digits, in no order."""
    size, box, cells = puzzle.size, round(puzzle.size**0.5), range(puzzle.size**2)
    digits = puzzle.givens
    kinds = [
        (
            ("row", c // size),
            ("column", c % size),
            ("box", c // size // box * box + c % size // box),
            ("digit", digits[c]),
        )
        for c in cells
    ]
    colours, last = [int(digit > 0) for digit in digits], list[object]()
    for _ in range(_REFINEMENTS):
        groups: dict[tuple[str, int], list[int]] = {}
        for cell in cells:
            for unit in kinds[cell]:
                groups.setdefault(unit, []).append(colours[cell])
        named = {unit: tuple(sorted(members)) for unit, members in groups.items()}
        seen = [
            (colours[cell], tuple(sorted((named[row], named[column]))), named[block], named[same])
            for cell, (row, column, block, same) in enumerate(kinds)
        ]
        order = {look: number for number, look in enumerate(sorted(set(seen)))}
        # Numbers alone would forget what they stand for, so the key is made of the last round's looks.
        last, colours = [*sorted(seen)], [order[look] for look in seen]
    return f"{size} {hashlib.sha256(repr(last).encode()).hexdigest()}"
