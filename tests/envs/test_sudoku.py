"""Sudoku: uniqueness, rewards, canonical keys, the solver."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_envs import make_text_env
from ragen_envs.sudoku.env import SudokuEnv
from ragen_envs.sudoku.puzzle import Puzzle, generate_puzzle, solutions


def _started(size: int = 4, seed: int = 0) -> SudokuEnv:
    env = SudokuEnv(size)
    env.reset(seed=seed)
    return env


def _puzzle(seed: int, size: int, blanks: int) -> Puzzle:
    rng = np.random.default_rng(seed)
    while (puzzle := generate_puzzle(rng, size, blanks)) is None:
        pass
    return puzzle


@pytest.mark.parametrize(("size", "blanks"), [(4, 6), (4, 10), (9, 30), (9, 45)])
def test_every_puzzle_has_one_solution_and_as_many_blanks_as_asked(size: int, blanks: int) -> None:
    for seed in range(4):
        puzzle = _puzzle(seed, size, blanks)
        assert puzzle.givens.count(0) == blanks
        assert solutions(size, puzzle.givens, 2) == [puzzle.solution]
        box = round(size**0.5)
        cells = [(r, c, puzzle.solution[size * r + c]) for r in range(size) for c in range(size)]
        for units in (
            {(row, digit) for row, _, digit in cells},
            {(column, digit) for _, column, digit in cells},
            {(row // box, column // box, digit) for row, column, digit in cells},
        ):
            assert len(units) == size**2


def test_there_are_288_filled_grids_of_4x4() -> None:
    assert len(solutions(4, (0,) * 16, 1_000)) == 288


@pytest.mark.parametrize("size", [4, 9])
def test_the_solution_gives_one_a_cell_and_ten_at_the_end(size: int) -> None:
    env = _started(size)
    plan = env.solve()
    assert plan is not None and len(plan) == env.fewest_actions()
    rewards = [env.step(env.parse_action(action) or (0, 0, 0))[1] for action in plan]
    assert rewards == [1.0] * (len(plan) - 1) + [11.0]
    assert env.success


def test_illegal_placements_cost_and_change_nothing() -> None:
    env = _started()
    before = env.describe()
    given_cell = next(cell for cell, digit in enumerate(env.puzzle.givens) if digit)
    row, column = given_cell // 4 + 1, given_cell % 4 + 1
    for digit in range(1, 5):
        assert env.step((row, column, digit))[1] == -0.1
    empty = next(cell for cell, digit in enumerate(env.puzzle.givens) if not digit)
    taken = next(digit for digit in env.puzzle.givens[4 * (empty // 4) :][:4] if digit)
    assert env.step((empty // 4 + 1, empty % 4 + 1, taken))[1] == -0.1
    assert env.describe() == before


def test_overwriting_and_repeating_are_never_paid() -> None:
    """A cell pays once at most, whatever is written over it: no reward to farm."""
    for seed in range(30):
        env = SudokuEnv(4, blanks=10)
        env.reset(seed=seed)
        rng, total = np.random.default_rng(seed), 0.0
        for _ in range(200):
            action = (int(rng.integers(1, 5)), int(rng.integers(1, 5)), int(rng.integers(1, 5)))
            _, reward, terminated, *_ = env.step(action)
            total += max(reward, 0.0)
            if terminated:
                break
        assert total <= 10 + 10


def test_a_wrong_digit_is_placed_unpaid_and_the_solver_writes_over_it() -> None:
    for seed in range(20):
        env = SudokuEnv(4, blanks=10)
        env.reset(seed=seed)
        for row, column, digit in np.ndindex(4, 4, 4):
            cell = 4 * row + column
            if env.puzzle.givens[cell] or digit + 1 == env.puzzle.solution[cell]:
                continue
            before = env.describe()
            reward = env.step((row + 1, column + 1, digit + 1))[1]
            if env.describe() != before:
                assert reward == 0.0
                assert env.solve() is not None
                return
    raise AssertionError("no wrong but legal digit in 20 puzzles")


@given(st.integers(0, 10**6), st.permutations((1, 2, 3, 4)), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_a_4x4_puzzle_has_one_key_in_all_its_forms(
    seed: int, names: list[int], turn: bool, bands: bool, lines: bool
) -> None:
    puzzle = _puzzle(seed, 4, 8)
    assert _changed(puzzle, [0, *names], turn, bands, lines).key == puzzle.key
    assert _puzzle(seed + 1, 4, 7).key != puzzle.key


@given(st.integers(0, 50), st.permutations(range(1, 10)), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=10, deadline=None)
def test_a_9x9_puzzle_has_one_key_in_all_its_forms(
    seed: int, names: list[int], turn: bool, bands: bool, lines: bool
) -> None:
    puzzle = _puzzle(seed, 9, 20)
    assert _changed(puzzle, [0, *names], turn, bands, lines).key == puzzle.key
    assert _puzzle(seed + 1, 9, 20).key != puzzle.key


def _changed(puzzle: Puzzle, names: list[int], turn: bool, bands: bool, lines: bool) -> Puzzle:
    """The puzzle with digits renamed and, where asked, turned, its bands and the first two rows swapped."""
    grids = []
    for grid in (puzzle.givens, puzzle.solution):
        square = np.array(names)[np.array(grid)].reshape(puzzle.size, puzzle.size)
        box = round(puzzle.size**0.5)
        square = np.rot90(square) if turn else square
        square = np.vstack([square[-box:], square[:-box]]) if bands else square
        square = square[[1, 0, *range(2, puzzle.size)]] if lines else square
        grids.append(tuple(int(digit) for digit in square.reshape(-1)))
    return Puzzle(puzzle.size, grids[0], grids[1])


@pytest.mark.parametrize(
    ("text", "action"), [("1,2=3", (1, 2, 3)), (" 4 , 4 = 1 ", (4, 4, 1)), ("1,2=5", None), ("0,1=1", None)]
)
def test_actions_are_read_within_the_grid(text: str, action: tuple[int, int, int] | None) -> None:
    assert SudokuEnv().parse_action(text) == action


@pytest.mark.parametrize("text", ["", "1 2 3", "1,2=", "１,2=3", "1,2=3" * 10, "1,2=3 " * 1_000, "a,b=c", "1,2=33"])
def test_what_is_no_placement_is_no_action(text: str) -> None:
    assert SudokuEnv().parse_action(text) is None


@pytest.mark.parametrize("wrong", [{"size": 6}, {"blanks": 0}, {"blanks": 11}, {"size": 9, "blanks": 60}])
def test_settings_out_of_range_are_refused_by_name(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(reversed(wrong)))):
        SudokuEnv(**wrong)  # type: ignore[arg-type]


def test_caps_that_no_solution_fits_are_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("takes at least 30 actions") + ".*max_actions=10 allow 10"):
        make_text_env("sudoku", {"size": 9})
    assert make_text_env("sudoku", {"size": 9}, {"max_turns": 6, "max_actions": 30}).reset(seed=0)[0]
