"""An instance's key is the same for everything that is the same task, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice

import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from hypothesis import given
from hypothesis import strategies as st

from ragen_envs import env_names, make_task
from ragen_envs.countdown.puzzle import Puzzle
from ragen_envs.frozen_lake.lake import Lake, generate_lake
from ragen_envs.frozen_lake.planning import best_success, transition_matrices
from ragen_envs.sokoban.generator import generate_room
from ragen_envs.sokoban.room import Room
from ragen_envs.splits import Split, distinct_numbers, instance_seed, split_of
from ragen_envs.symmetry import canonical_grid, square_forms
from tests.envs.rooms import room_of

_GRIDS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.text("#_PX", min_size=width, max_size=width), min_size=1, max_size=4)
)
_SEEDS = st.integers(0, 10**6)


def _room(seed: int, boxes: int = 1) -> Room:
    rng = np.random.default_rng(seed)
    while (room := generate_room(rng, 6, 7, boxes)) is None:
        pass
    return room


def _lake(seed: int) -> Lake:
    rng = np.random.default_rng(seed)
    while (lake := generate_lake(rng, 4, 0.75)) is None:
        pass
    return lake


def _lake_of(rows: tuple[str, ...]) -> Lake:
    cells = {(r, c): letter for r, row in enumerate(rows) for c, letter in enumerate(row)}
    (start,), (goal,) = ([cell for cell, letter in cells.items() if letter == wanted] for wanted in "SG")
    return Lake(len(rows), start, goal, tuple(sorted(cell for cell, letter in cells.items() if letter == "H")))


@given(_GRIDS)
def test_a_grid_has_eight_forms_with_one_canonical_text(rows: list[str]) -> None:
    forms = square_forms(rows)
    assert len(forms) == 8
    turned = tuple("".join(line) for line in zip(*rows[::-1], strict=True))
    assert {tuple(rows), tuple(rows[::-1]), turned} <= set(forms)
    assert {canonical_grid(form) for form in forms} == {canonical_grid(rows)}
    assert canonical_grid(rows).split("\n") in [list(form) for form in forms]


@given(_SEEDS, st.integers(1, 2))
def test_a_room_has_one_key_in_all_its_forms_and_wherever_the_player_can_walk(seed: int, boxes: int) -> None:
    room = _room(seed, boxes)
    for cell in room.reachable:
        for form in square_forms(replace(room, player=cell).grid().split("\n")):
            assert room_of(*form).key == room.key


@given(_SEEDS)
def test_reachable_squares_are_those_that_moves_without_a_push_lead_to(seed: int) -> None:
    room = _room(seed, 2)
    found, frontier = {room.player}, [room]
    while frontier:
        here = frontier.pop()
        for move in ("Up", "Down", "Left", "Right"):
            there = here.moved(move)
            if there.boxes == room.boxes and there.player not in found:
                found.add(there.player)
                frontier.append(there)
    assert room.reachable == found


@pytest.mark.parametrize(
    "other",
    [
        ("######", "#P_X_#", "#_O__#", "######"),  # box elsewhere
        ("######", "#PX__#", "#__O_#", "######"),  # target elsewhere
        ("######", "#PX__#", "#_O_##", "######"),  # a wall more
        ("######", "##XP_#", "##O__#", "######"),
    ],
)
def test_other_rooms_have_other_keys(other: tuple[str, ...]) -> None:
    assert room_of("######", "#PX__#", "#_O__#", "######").key != room_of(*other).key


def test_a_player_shut_in_on_the_other_side_of_the_box_makes_another_room() -> None:
    assert room_of("######", "#PX_O#", "######").key != room_of("######", "#_XPO#", "######").key


@given(_SEEDS)
def test_a_lake_has_one_key_in_all_its_forms(seed: int) -> None:
    lake = _lake(seed)
    assert {_lake_of(form).key for form in square_forms(lake.rows())} == {lake.key}


@given(_SEEDS)
def test_all_forms_of_a_lake_are_equally_hard_slips_included(seed: int) -> None:
    """The reason why all 8 count as one map."""
    chances = []
    for form in square_forms(_lake(seed).rows()):
        lake = _lake_of(form)
        dynamics = FrozenLakeEnv(desc=lake.rows(), is_slippery=True, success_rate=0.6)
        goal, start = (row * lake.size + column for row, column in (lake.goal, lake.start))
        chances.append(best_success(transition_matrices(dynamics), goal, 3, 2, 6)[start])
    assert chances == pytest.approx([chances[0]] * 8)


@given(st.permutations((3, 7, 7, 12)), st.integers(1, 99))
def test_a_puzzle_has_one_key_in_any_order_of_its_numbers(numbers: list[int], target: int) -> None:
    assert Puzzle(tuple(numbers), target).key == Puzzle((3, 7, 7, 12), target).key
    assert Puzzle(tuple(numbers), target).key != Puzzle((3, 3, 7, 12), target).key


@pytest.mark.parametrize("name", env_names())
def test_no_two_splits_share_an_instance_and_every_key_is_in_the_split_it_names(name: str) -> None:
    task = make_task(name)
    keys = {
        split: {task.reset(seed=seed, options={"split": split})[1]["instance_key"] for seed in range(400)}
        for split in Split
    }
    for one, other in combinations(Split, 2):
        assert not keys[one] & keys[other]
    if name != "bandit":
        assert all(split_of(key) is split for split, found in keys.items() for key in found)


@pytest.mark.parametrize(
    ("name", "wanted", "expected"),
    [("sokoban", 256, 256), ("frozen_lake", 256, 256), ("countdown", 256, 256), ("bandit", 256, 8)],
)
def test_an_evaluation_split_holds_no_instance_twice(name: str, wanted: int, expected: int) -> None:
    task = make_task(name)

    def key_of(number: int) -> str:
        return str(task.reset(seed=instance_seed("test", number), options={"split": "test"})[1]["instance_key"])

    numbers = list(islice(distinct_numbers(key_of), wanted))
    assert len(numbers) == len({key_of(number) for number in numbers}) == expected
