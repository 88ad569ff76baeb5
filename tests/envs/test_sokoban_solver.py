"""The solver is optimal, and generated rooms are what generation promises."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ragen_envs.sokoban.generator import generate_room
from ragen_envs.sokoban.room import MOVES, Room
from ragen_envs.sokoban.solver import shortest_solution, solved_by
from tests.envs.rooms import room_of


def _brute_force_length(room: Room, longest: int) -> int | None:
    """Length of the shortest solution by playing every sequence of moves with Room.moved, not the solver's own step."""
    for length in range(longest + 1):
        for moves in product(MOVES, repeat=length):
            after = room
            for move in moves:
                after = after.moved(move)
            if after.solved:
                return length
    return None


def _small_rooms(count: int, height: int, width: int, num_boxes: int) -> list[Room]:
    rng = np.random.default_rng(5)
    drawn = (generate_room(rng, height, width, num_boxes) for _ in range(10_000))
    rooms = []
    for room in drawn:
        if room is not None:
            rooms.append(room)
        if len(rooms) == count:
            return rooms
    raise AssertionError("too few rooms")


@pytest.mark.parametrize(("height", "width", "num_boxes"), [(5, 5, 1), (6, 6, 1), (5, 6, 2)])
def test_solution_is_as_short_as_brute_force_finds_it(height: int, width: int, num_boxes: int) -> None:
    longest, compared = 5, 0
    for room in _small_rooms(25, height, width, num_boxes):
        solution = shortest_solution(room)
        assert solution is not None
        expected = len(solution) if len(solution) <= longest else None
        assert _brute_force_length(room, longest) == expected
        compared += expected is not None
    assert compared >= 3, "the comparison never reached a solution"


def test_solutions_solve_and_no_shorter_prefix_does() -> None:
    for room in _small_rooms(60, 6, 6, 1):
        solution = shortest_solution(room)
        assert solution is not None
        after = room
        for move in solution[:-1]:
            after = after.moved(move)
            assert not after.solved
        assert after.moved(solution[-1]).solved
        assert solved_by(room, solution)
        assert not solved_by(room, solution[:-1])


def test_a_room_with_its_box_in_a_corner_has_no_solution() -> None:
    assert shortest_solution(room_of("#####", "#X__#", "#_PO#", "#####")) is None


def test_the_bound_on_steps_is_kept() -> None:
    room = room_of("#######", "#PX__O#", "#######")
    assert shortest_solution(room) == ("Right", "Right", "Right")
    assert shortest_solution(room, 3) == ("Right", "Right", "Right")
    assert shortest_solution(room, 2) is None


def test_of_equally_short_solutions_the_first_in_move_order_is_taken() -> None:
    # Down then Right, or Right then Down: both get behind the box in two moves.
    room = room_of("######", "#P___#", "#__XO#", "######")
    assert shortest_solution(room) == ("Down", "Right", "Right")
    assert solved_by(room, ("Right", "Down", "Right"))


def test_generated_rooms_are_walled_unsolved_and_hold_each_thing_once() -> None:
    for room in _small_rooms(80, 6, 6, 1):
        assert all(0 < r < 5 and 0 < c < 5 for r, c in room.floor)
        assert {room.player, *room.boxes, *room.targets} <= room.floor
        assert room.player not in room.boxes
        assert not set(room.boxes) & set(room.targets)


def test_rooms_are_a_function_of_the_generator_alone() -> None:
    def rooms() -> list[Room | None]:
        rng = np.random.default_rng(11)
        return [generate_room(rng, 6, 6, 1) for _ in range(40)]

    np.random.seed(1)
    first = rooms()
    np.random.seed(2)
    assert rooms() == first
