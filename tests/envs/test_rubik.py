"""The 2×2×2 cube: turns against magiccube, shortest solutions, keys."""

from __future__ import annotations

import magiccube
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_envs.rubik.cube import COLOURS, FACES, SOLVED, TURNS, Cube, is_solved, key, shortest_solution, turned
from ragen_envs.rubik.env import RubikEnv

_SEQUENCES = st.lists(st.sampled_from(list(TURNS)), max_size=12)


def _after(turns: list[str], cube: Cube = SOLVED) -> Cube:
    for turn in turns:
        cube = turned(cube, turn)
    return cube


def _oracle(turns: list[str]) -> Cube:
    """The same stickers by magiccube, whose colours are other letters."""
    cube = magiccube.Cube(2)
    solved = {face.name: str(colours[0][0].name) for face, colours in cube.get_all_faces().items()}
    ours = {colour: COLOURS[face] for face, colour in solved.items()}
    cube.rotate(" ".join(turns))
    faces = {face.name: colours for face, colours in cube.get_all_faces().items()}
    return tuple(ours[one.name] for face in FACES for row in faces[face] for one in row)


@given(_SEQUENCES)
def test_turns_are_those_of_magiccube(turns: list[str]) -> None:
    assert _after(turns) == _oracle(turns)


@pytest.mark.parametrize("turn", TURNS)
def test_four_equal_turns_and_a_turn_and_its_inverse_change_nothing(turn: str) -> None:
    assert _after([turn] * 4) == SOLVED
    assert _after([turn, turn[0] if turn.endswith("'") else f"{turn}'"]) == SOLVED


@given(_SEQUENCES)
def test_solutions_solve_and_are_no_longer_than_the_scramble(turns: list[str]) -> None:
    cube = _after(turns[:9])
    solution = shortest_solution(cube)
    assert len(solution) <= len(turns[:9])
    assert is_solved(_after(list(solution), cube))


def test_as_many_cubes_are_near_as_is_known() -> None:
    """Positions of the 2×2×2 cube by quarter turns, how it is held left out: 1, 6, 27, 120, 534, 2256."""
    found, frontier, counts = {SOLVED}, [SOLVED], [1]
    for _ in range(5):
        frontier = list(
            {
                after
                for cube in frontier
                for turn in ("U", "U'", "R", "R'", "F", "F'")
                if (after := turned(cube, turn)) not in found
            }
        )
        found.update(frontier)
        counts.append(len(frontier))
        assert all(len(shortest_solution(cube)) == len(counts) - 1 for cube in frontier[:40])
    assert counts == [1, 6, 27, 120, 534, 2256]


@given(_SEQUENCES, st.permutations("abcdef"))
def test_a_cube_has_one_key_however_it_is_held_and_coloured(turns: list[str], names: list[str]) -> None:
    cube = _after(turns)
    held = _after(["R", "L'"], cube) if not turns else cube
    renamed = tuple(dict(zip("WGRBOY", names, strict=True))[colour] for colour in held)
    assert key(renamed) == key(held)
    # Turning both layers turns the whole cube.
    assert key(_after(["U", "D'"], cube)) == key(cube)
    assert key(_after(["R", "L'"], cube)) == key(cube)


def test_other_cubes_have_other_keys() -> None:
    keys = {key(_after(turns)) for turns in (["U"], ["U", "U"], ["U", "R"], ["U", "R'"], ["U", "R", "U"], [])}
    assert len(keys) >= 5


def test_only_the_solved_cube_is_paid() -> None:
    env = RubikEnv()
    env.reset(seed=0)
    plan = env.solve()
    assert plan is not None and len(plan) == 5
    steps = [env.step(env.parse_action(turn) or 0) for turn in plan]
    assert [step[1] for step in steps] == [0, 0, 0, 0, 1]
    assert [step[2] for step in steps] == [False] * 4 + [True]


def test_every_instance_is_as_far_from_solved_as_asked() -> None:
    env = RubikEnv(scramble_turns=6)
    for seed in range(20):
        env.reset(seed=seed)
        assert len(shortest_solution(env.cube)) == 6
        assert env.blind_success(tuple(env.parse_action(turn) or 0 for turn in env.solve() or ())) == 1.0


@pytest.mark.parametrize("turns", [4, 10])
def test_settings_out_of_range_are_refused_by_name(turns: int) -> None:
    with pytest.raises(ValueError, match="scramble_turns must be 5…9"):
        RubikEnv(scramble_turns=turns)


def test_random_scrambles_use_the_generator_alone() -> None:
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    RubikEnv().reset(seed=5)
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]
