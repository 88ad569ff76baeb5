"""Sokoban's rules and rewards on hand-made positions."""

from __future__ import annotations

import gymnasium as gym
import pytest

from ragen_envs.sokoban.env import SokobanEnv
from ragen_envs.sokoban.room import MOVES
from tests.envs.rooms import env_at, room_of

UP, DOWN, LEFT, RIGHT = range(4)


def test_drawn_room_reads_back_as_it_was_drawn() -> None:
    rows = ("######", "#P_XO#", "#_√__#", "######")
    assert room_of(*rows).grid() == "\n".join(rows)
    assert room_of("######", "#S_X_#", "######").grid().splitlines()[1] == "#S_X_#"


def test_coordinates_name_every_box_and_target() -> None:
    assert room_of("#####", "#PXO#", "#_XO#", "#####").coordinates() == "Player 1 1\nBox 1 2, 2 2\nTarget 1 3, 2 3"


def test_pushing_the_last_box_onto_its_target_pays_step_box_and_solution_and_ends() -> None:
    env = env_at("#####", "#PXO#", "#####")
    text, reward, terminated, truncated, _ = env.step(RIGHT)
    assert text == "#####\n#_P√#\n#####"
    assert reward == pytest.approx(-0.1 + 1 + 10)
    assert (terminated, truncated, env.success) == (True, False, True)


def test_one_of_two_boxes_on_target_pays_one_and_goes_on() -> None:
    env = env_at("######", "#PXO_#", "#_X_O#", "######")
    _, reward, terminated, _, _ = env.step(RIGHT)
    assert reward == pytest.approx(0.9)
    assert not terminated
    assert not env.success


def test_box_pushed_off_its_target_costs_one() -> None:
    env = env_at("######", "#P√_O#", "#__X_#", "######")
    _, reward, terminated, _, _ = env.step(RIGHT)
    assert reward == pytest.approx(-1.1)
    assert not terminated


def test_box_pushed_from_target_to_target_pays_nothing() -> None:
    env = env_at("######", "#P√O_#", "#__X_#", "######")
    _, reward, _, _, _ = env.step(RIGHT)
    assert reward == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (("######", "#XOP##", "######"), "wall"),
        (("#####", "#OPX#", "#####"), "box against wall"),
        (("######", "#PXX_#", "#_OO_#", "######"), "box against box"),
    ],
)
def test_a_blocked_move_changes_nothing_and_costs_a_step(rows: tuple[str, ...], why: str) -> None:
    env = env_at(*rows)
    before = env.room
    _, reward, terminated, _, _ = env.step(RIGHT)
    assert env.room == before, why
    assert reward == pytest.approx(-0.1)
    assert not terminated


def test_boxes_are_pushed_never_pulled() -> None:
    env = env_at("######", "#_XP_#", "#O___#", "######")
    env.step(RIGHT)
    assert env.render() == "######\n#_X_P#\n#O___#\n######"


def test_walking_over_a_target_shows_and_keeps_it() -> None:
    env = env_at("######", "#PO_X#", "######")
    assert env.step(RIGHT)[0] == "######\n#_S_X#\n######"
    assert env.step(RIGHT)[0] == "######\n#_OPX#\n######"


@pytest.mark.parametrize("observation", ["grid", "coordinates", "both"])
def test_each_observation_form_tells_what_it_promises(observation: str) -> None:
    env = SokobanEnv(observation=observation)  # type: ignore[arg-type]
    text, _ = env.reset(seed=1)
    assert ("#" in text) == (observation != "coordinates")
    assert ("Player" in text) == (observation != "grid")


def test_8x8_rooms_have_two_boxes_two_targets_and_their_size() -> None:
    env = SokobanEnv(height=8, width=8, num_boxes=2)
    for seed in range(3):
        env.reset(seed=seed)
        assert (env.room.height, env.room.width) == (8, 8)
        assert len(env.room.boxes) == len(env.room.targets) == 2
        assert not env.success
        assert env.solve() is not None


def test_solution_steps_stay_in_the_range_asked_for() -> None:
    env = SokobanEnv(min_solution_steps=3, max_solution_steps=5)
    lengths = set()
    for seed in range(40):
        env.reset(seed=seed)
        solution = env.solve()
        assert solution is not None
        lengths.add(len(solution))
    assert lengths == {3, 4, 5}


def test_pool_size_maps_seeds_onto_that_many_rooms() -> None:
    env = SokobanEnv(pool_size=3)
    keys = [env.reset(seed=seed)[1]["instance_key"] for seed in range(9)]
    assert keys[:3] == keys[3:6] == keys[6:]
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"height": 3},
        {"num_boxes": 0},
        {"observation": "picture"},
        {"pool_size": 0},
        {"min_solution_steps": 5, "max_solution_steps": 4},
    ],
)
def test_settings_that_allow_no_room_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"height|num_boxes|observation|pool_size|solution steps"):
        SokobanEnv(**settings)  # type: ignore[arg-type]


def test_actions_outside_the_space_are_refused() -> None:
    env = env_at("#####", "#PXO#", "#####")
    for action in (-1, 4):
        with pytest.raises(ValueError, match="Up, Down, Left, Right"):
            env.step(action)


def test_using_an_environment_before_reset_says_so() -> None:
    with pytest.raises(gym.error.ResetNeeded):
        SokobanEnv().describe()


def test_move_names_parse_in_any_case_and_nothing_else_does() -> None:
    env = SokobanEnv()
    assert [env.parse_action(f" {name.upper()} ") for name in MOVES] == [UP, DOWN, LEFT, RIGHT]
    assert [env.parse_action(text) for text in ("", "Upp", "Up Down", "0", "\0")] == [None] * 5
