"""2048: slides and merges, rewards, the outcome seed, keys, the player for the ceiling."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_envs.game_2048.board import MOVES, good_move, key, moved, spawned, stuck
from ragen_envs.game_2048.env import Game2048Env
from ragen_envs.text import TextEnv, TextLimits

_BOARDS = st.lists(st.sampled_from([0, 0, 2, 4, 8, 16]), min_size=16, max_size=16).map(tuple)


@pytest.mark.parametrize(
    ("line", "after", "paid"),
    [
        ((2, 2, 0, 0), (4, 0, 0, 0), math.log2(5)),
        ((2, 2, 2, 2), (4, 4, 0, 0), 2 * math.log2(5)),
        ((2, 2, 4, 0), (4, 4, 0, 0), math.log2(5)),  # what has merged does not merge again
        ((0, 4, 0, 4), (8, 0, 0, 0), math.log2(9)),
        ((2, 2, 2, 0), (4, 2, 0, 0), math.log2(5)),
        ((2, 4, 2, 4), (2, 4, 2, 4), 0.0),
    ],
)
def test_a_line_slides_and_merges_once(line: tuple[int, ...], after: tuple[int, ...], paid: float) -> None:
    board, got = moved(line + (0,) * 12, "Left")
    assert board[:4] == after
    assert got == pytest.approx(paid)
    assert moved(line[::-1] + (0,) * 12, "Right")[0][:4] == after[::-1]
    upright = tuple(tile for one in line for tile in (one, 0, 0, 0))
    assert moved(upright, "Up")[0][::4] == after
    assert moved(upright[::-1], "Down")[0][::-1][::4] == after


@given(_BOARDS, st.sampled_from(MOVES))
def test_a_move_keeps_the_sum_and_pays_exactly_its_merges(board: tuple[int, ...], move: str) -> None:
    after, paid = moved(board, move)
    assert sum(after) == sum(board)
    assert (paid > 0) == (after.count(0) > board.count(0))


@given(_BOARDS)
def test_a_board_has_one_key_in_all_its_forms(board: tuple[int, ...]) -> None:
    square = np.array(board).reshape(4, 4)
    forms = [np.rot90(one, turns) for one in (square, square.T) for turns in range(4)]
    assert len({key(tuple(int(tile) for tile in form.reshape(-1))) for form in forms}) == 1
    assert key(board) != key((1024, *board[1:]))


def test_rewards_are_a_tenth_of_the_logarithms_and_idle_moves_cost() -> None:
    env = Game2048Env()
    env.reset(seed=0)
    env._board = (2, 2, 0, 0) + (0,) * 12
    assert env.step(2)[1] == pytest.approx(0.1 * math.log2(5))
    env._board = (4, 2, 0, 0) + (0,) * 12
    text, reward, terminated, *_ = env.step(2)
    assert (reward, terminated, env.board) == (-0.1, False, (4, 2, 0, 0) + (0,) * 12)
    assert text.startswith("4 2 . .")


def test_the_episode_ends_with_the_goal_or_when_nothing_moves() -> None:
    env = Game2048Env(goal_tile=16, warm_up=0)
    env.reset(seed=0)
    env._board = (8, 8, 0, 0) + (0,) * 12
    assert env.step(2)[2] and env.success
    env.reset(seed=0)
    env._board = (2, 4, 2, 4, 4, 2, 4, 2, 2, 4, 2, 4, 4, 2, 8, 8)
    env._outcome_rng = np.random.default_rng(5)
    terminated = env.step(MOVES.index("Left"))[2]
    assert terminated == (stuck(env.board) or env.success)


def test_the_group_shares_the_board_and_not_the_new_tiles() -> None:
    boards = set()
    for outcome_seed in range(8):
        env = Game2048Env()
        start = env.reset(seed=3, options={"outcome_seed": outcome_seed})[0]
        for move in (0, 2, 1, 3):
            env.step(move)
        boards.add((start, env.board))
    assert len({start for start, _ in boards}) == 1
    assert len(boards) > 4


def test_the_solver_reaches_the_goal_with_this_outcome_seed() -> None:
    env = Game2048Env()
    solved = 0
    for seed in range(10):
        env.reset(seed=seed)
        plan = env.solve()
        for action in plan or ():
            env.step(env.parse_action(action) or 0)
        solved += env.success
    assert solved >= 8


def test_new_tiles_are_twos_and_one_in_ten_a_four() -> None:
    rng = np.random.default_rng(0)
    fours = sum(4 in spawned((0,) * 16, rng) for _ in range(3_000))
    assert abs(fours / 3_000 - 0.1) < 0.02
    assert good_move((2, 4, 2, 4, 4, 2, 4, 2) * 2) is None


def test_caps_below_what_the_goal_needs_are_refused() -> None:
    with pytest.raises(ValueError, match="2048 with these settings takes at least 22 actions"):
        TextEnv(Game2048Env(), TextLimits(max_actions=21))


@pytest.mark.parametrize("wrong", [{"goal_tile": 48}, {"goal_tile": 8}, {"warm_up": -1}, {"pool_size": 0}])
def test_settings_out_of_range_are_refused_by_name(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Game2048Env(**wrong)  # type: ignore[arg-type]
