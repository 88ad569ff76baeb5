"""Sudoku: fill every empty cell of a puzzle that has one solution."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import ClassVar

import gymnasium as gym
import numpy as np

from ragen_envs.spaces import MAX_STATE, AnyText
from ragen_envs.splits import Split, draw_instance
from ragen_envs.sudoku.puzzle import Puzzle, allowed, generate_puzzle, solutions
from ragen_envs.task import TextTask, check_pool_size, read_options
from ragen_envs.tree import Tree

Placement = tuple[int, int, int]
"""An action: row, column and digit, each from 1."""
_RIGHT_REWARD = 1.0
"""Reward of the solution's digit in an empty cell."""
_ILLEGAL_REWARD = -0.1
"""Reward of a digit that the rules forbid: as much as the default format penalty."""
_SOLVED_REWARD = 10.0
"""Reward of the digit that solves the puzzle: more than all six right digits of the default 4×4 puzzle."""
_ACTION = re.compile(r"\s*([1-9])\s*,\s*([1-9])\s*=\s*([1-9])\s*", re.ASCII)
_MAX_CHARS = 30
"""Most characters of an action that is read: it takes five, and some spaces."""
_DEFAULT_BLANKS = {4: 6, 9: 30}
_MOST_BLANKS = {4: 10, 9: 50}
"""Most blanks by size: chosen freely below those that can leave one solution (12 and 64), which random digging
misses.
"""


class SudokuEnv(TextTask[Placement]):
    """+1 for the right digit in an empty cell, −0.1 for an illegal placement, +10 when solved; then the end.

    A placement is illegal if the row, column or box already has the digit, or the cell is given; nothing is placed
    then.
    A legal digit may still be wrong: it gives 0 and can be overwritten, which gives 0 too.

    Args:
        size: 4 or 9.
        blanks: empty cells, each of which needs an action; None: 6 of 4×4, 30 of 9×9.
        pool_size: instances per split that seeds are mapped to (seed modulo pool_size); None: no bound.

    Raises:
        ValueError: a setting out of its range.
    """

    title: ClassVar[str] = "Sudoku"
    best_how: ClassVar[str] = "the one solution, a cell an action"

    def __init__(
        self, size: int = 4, blanks: int | None = None, pool_size: int | None = None, render_mode: str | None = "ansi"
    ) -> None:
        if size not in _MOST_BLANKS:
            raise ValueError(f"size must be 4 or 9, got {size}")
        blanks = _DEFAULT_BLANKS[size] if blanks is None else blanks
        if not 1 <= blanks <= _MOST_BLANKS[size]:
            raise ValueError(f"blanks must be 1…{_MOST_BLANKS[size]} where size is {size}, got {blanks}")
        check_pool_size(pool_size)
        self.render_mode = render_mode
        self.action_space = gym.spaces.Tuple([gym.spaces.Discrete(size, start=1)] * 3)
        self.observation_space = AnyText(MAX_STATE)
        self.size = size
        self._blanks = blanks
        self._pool_size = pool_size
        self._puzzle: Puzzle | None = None
        self._grid: list[int] = []

    @property
    def puzzle(self) -> Puzzle:
        """The current puzzle. Raises ResetNeeded before the first reset."""
        if self._puzzle is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._puzzle

    def rules(self) -> str:
        """Returns the task in words."""
        box = round(self.size**0.5)
        return (
            f"Solve the Sudoku: every row, every column and every {box}×{box} box holds each of 1…{self.size} once. "
            "A dot is an empty cell. Action: row,column=digit in figures, rows and columns counted from 1 at the top "
            f"left. The right digit in an empty cell gives {_RIGHT_REWARD:g}, a digit that row, column or box has "
            f"already, or a change of a given cell, costs {-_ILLEGAL_REWARD:g} and changes nothing, the solved puzzle "
            f"gives {_SOLVED_REWARD:g}. Own digits can be overwritten, which gives nothing."
        )

    def describe(self) -> str:
        """Returns the grid, a row a line, with lines between the boxes."""
        size, box = self.size, round(self.size**0.5)
        lines: list[str] = []
        for row in range(size):
            cells = [str(digit or ".") for digit in self._grid[size * row : size * (row + 1)]]
            lines += [""] if row and row % box == 0 else []
            lines.append("  ".join(" ".join(cells[start : start + box]) for start in range(0, size, box)))
        return "\n".join(lines)

    def parse_action(self, text: str) -> Placement | None:
        """Reads `row,column=digit`, each in 1…size; None for anything else."""
        match = _ACTION.fullmatch(text) if len(text) <= _MAX_CHARS else None
        if match is None:
            return None
        row, column, digit = (int(group) for group in match.groups())
        return None if max(row, column, digit) > self.size else (row, column, digit)

    def legal_actions(self) -> list[str]:
        """Returns an empty list: there are too many to be listed."""
        return []

    def fewest_actions(self) -> int:
        """Returns the number of blanks: each needs an action."""
        return self._blanks

    @property
    def success(self) -> bool:
        """Whether the grid is the solution."""
        return tuple(self._grid) == self.puzzle.solution

    @property
    def instance_key(self) -> str:
        """The puzzle's canonical form: see Puzzle.key."""
        return self.puzzle.key

    def solve(self) -> list[str] | None:
        """Returns the right digit for every empty or wrong cell, in an order in which each is legal."""
        grid, solution, plan = list(self._grid), self.puzzle.solution, []
        while tuple(grid) != solution:
            wrong = [cell for cell in range(self.size**2) if grid[cell] != solution[cell]]
            # A wrong digit elsewhere can stand in the way; two can block each other for good.
            free = [cell for cell in wrong if solution[cell] in allowed(self.size, grid, cell)]
            if not free:
                return None
            grid[free[0]] = solution[free[0]]
            plan.append(self._named(free[0], solution[free[0]]))
        return plan

    def random_action(self, rng: np.random.Generator) -> str:
        """Returns a random digit in a random empty cell (or in any cell that is not given, if none is empty)."""
        cells = [cell for cell, digit in enumerate(self._grid) if not digit]
        cells = cells or [cell for cell, digit in enumerate(self.puzzle.givens) if not digit]
        return self._named(cells[int(rng.integers(len(cells)))], int(rng.integers(1, self.size + 1)))

    def blind_choices(self, num_actions: int) -> tuple[int, ...]:
        """Returns the number of filled grids: a blind plan copies one of the 288 of size 4 (one grid of size 9)."""
        return (len(_filled_grids(self.size)),)

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns 1 if grid `plan[0]` is the solution, else 0."""
        return float(_filled_grids(self.size)[plan[0]] == self.puzzle.solution) if plan else 0.0

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Draws the puzzle that (seed, split) names; without a seed, one from `np_random`."""
        super().reset(seed=seed)
        split, _ = read_options(seed, options)
        seed = self._seed_or_draw(seed, self._pool_size)
        self._puzzle = _puzzle_of(seed, split, self.size, self._blanks)
        self._grid = list(self._puzzle.givens)
        return self.describe(), {"instance_key": self.instance_key}

    def step(self, action: Placement) -> tuple[str, float, bool, bool, Tree]:
        """Places one digit. Raises ValueError for a row, column or digit outside 1…size."""
        row, column, digit = (int(number) for number in action)
        if not all(1 <= number <= self.size for number in (row, column, digit)):
            raise ValueError(f"row, column and digit must be 1…{self.size}, got {action}")
        cell = self.size * (row - 1) + column - 1
        if self.puzzle.givens[cell] or digit not in allowed(self.size, self._grid, cell):
            return self.describe(), _ILLEGAL_REWARD, self.success, False, {}
        was_empty, self._grid[cell] = not self._grid[cell], digit
        reward = _RIGHT_REWARD if was_empty and digit == self.puzzle.solution[cell] else 0.0
        return self.describe(), reward + (_SOLVED_REWARD if self.success else 0.0), self.success, False, {}

    def _named(self, cell: int, digit: int) -> str:
        return f"{cell // self.size + 1},{cell % self.size + 1}={digit}"


@lru_cache(maxsize=2)
def _filled_grids(size: int) -> tuple[tuple[int, ...], ...]:
    return tuple(solutions(size, (0,) * size**2, 288 if size == 4 else 1))


@lru_cache(maxsize=16_384)
def _puzzle_of(seed: int, split: Split, size: int, blanks: int) -> Puzzle:
    return draw_instance(seed, split, lambda rng: generate_puzzle(rng, size, blanks), lambda puzzle: puzzle.key)
