"""FrozenLake's rules, slips and planning."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from ragen_envs.frozen_lake.env import FrozenLakeTask
from ragen_envs.frozen_lake.lake import MOVES, Lake, generate_lake
from ragen_envs.frozen_lake.planning import best_success

LEFT, DOWN, RIGHT, UP = range(4)


def _task_at(seed: int = 0, **settings: float) -> FrozenLakeTask:
    task = FrozenLakeTask(**settings)  # type: ignore[arg-type]
    task.reset(seed=seed)
    return task


def _find(condition: str, **settings: float) -> FrozenLakeTask:
    """A freshly reset task whose player stands left of a hole, left of the goal, or away from edges, holes and goal."""
    task = FrozenLakeTask(**settings)  # type: ignore[arg-type]
    for seed in range(2_000):
        task.reset(seed=seed)
        lake, (row, column) = task.lake, task.player
        right = (row, column + 1)
        inside = 0 < row < lake.size - 1 and 0 < column < lake.size - 1
        near = {lake.moved(task.player, move) for move in MOVES}
        found = {
            "hole": right in lake.holes,
            "goal": right == lake.goal,
            "free": inside and not near & {*lake.holes, lake.goal},
        }
        if found[condition]:
            return task
    raise AssertionError(f"no lake with {condition}")


def test_grid_and_coordinates_use_the_documented_symbols() -> None:
    lake = Lake(size=3, start=(0, 0), goal=(2, 2), holes=((0, 2), (1, 1)))
    assert lake.grid((0, 0)) == "P_O\n_O_\n__G"
    assert lake.grid((1, 1)) == "__O\n_X_\n__G"
    assert lake.grid((2, 2)) == "__O\n_O_\n__√"
    assert lake.coordinates((1, 0)) == "Player 1 0\nGoal 2 2\nHole 0 2, 1 1"
    assert Lake(2, (0, 0), (1, 1), ()).coordinates((0, 0)).endswith("Hole none")
    assert lake.rows() == ["SFH", "FHF", "FFG"]


def test_the_goal_pays_one_and_ends_in_success() -> None:
    task = _find("goal", success_rate=1.0)
    text, reward, terminated, truncated, _ = task.step(RIGHT)
    assert (reward, terminated, truncated, task.success) == (1.0, True, False, True)
    assert "√" in text


def test_a_hole_pays_nothing_and_ends_in_failure() -> None:
    task = _find("hole", success_rate=1.0)
    text, reward, terminated, truncated, _ = task.step(RIGHT)
    assert (reward, terminated, truncated, task.success) == (0.0, True, False, False)
    assert "X" in text
    assert task.solve() is None


def test_a_plain_move_pays_nothing_and_the_edge_holds_back() -> None:
    task = _find("free", success_rate=1.0)
    row, column = task.player
    _, reward, terminated, _, _ = task.step(LEFT)
    assert (task.player, reward, terminated) == ((row, column - 1), 0.0, False)
    corner = Lake(3, (0, 0), (2, 2), ())
    assert corner.moved((0, 0), "Left") == corner.moved((0, 0), "Up") == (0, 0)


@pytest.mark.parametrize("success_rate", [1.0, 0.8, 1 / 3])
def test_slips_happen_as_often_as_the_success_rate_says(success_rate: float) -> None:
    task = _find("free", success_rate=success_rate)
    key = task.instance_key
    seed = next(s for s in range(2_000) if task.reset(seed=s)[1]["instance_key"] == key)
    row, column = task.player
    draws, reached = 3_000, Counter[tuple[int, int]]()
    for outcome in range(draws):
        task.reset(seed=seed, options={"outcome_seed": outcome})
        task.step(RIGHT)
        reached[task.player] += 1
    expected = {
        (row, column + 1): success_rate,
        (row - 1, column): (1 - success_rate) / 2,
        (row + 1, column): (1 - success_rate) / 2,
    }
    assert set(reached) <= set(expected)
    for cell, chance in expected.items():
        # Four standard errors; the counts are the same in every run.
        assert abs(reached[cell] / draws - chance) <= 4 * np.sqrt(chance * (1 - chance) / draws) + 1e-9


def test_the_slips_of_equal_seeds_are_not_a_function_of_the_map_stream() -> None:
    """With outcome_seed = seed (the default), slips must still come at the rate asked for, over maps."""
    task = FrozenLakeTask(success_rate=0.5)
    intended = total = 0
    for seed in range(800):
        task.reset(seed=seed)
        aim = task.lake.moved(task.player, "Right")
        if aim != task.player:
            task.step(RIGHT)
            intended, total = intended + (task.player == aim), total + 1
    assert abs(intended / total - 0.5) < 4 * 0.5 / np.sqrt(total)


def test_the_same_outcome_seed_gives_the_same_slips_and_others_differ() -> None:
    def path(outcome_seed: int) -> list[tuple[int, int]]:
        task = FrozenLakeTask(success_rate=1 / 3, size=6)
        task.reset(seed=3, options={"outcome_seed": outcome_seed})
        cells = []
        for _ in range(8):
            if task.step(LEFT)[2]:
                break
            cells.append(task.player)
        return cells

    assert path(1) == path(1)
    assert len({tuple(path(outcome)) for outcome in range(10)}) > 1


def test_solutions_are_shortest_paths_around_holes() -> None:
    rng = np.random.default_rng(0)
    lakes = [lake for _ in range(150) if (lake := generate_lake(rng, 4, 0.7)) is not None]
    assert len(lakes) > 50
    for lake in lakes:
        path = lake.shortest_path(lake.start)
        assert path is not None
        cell = lake.start
        for move in path:
            cell = lake.moved(cell, move)
            assert cell not in lake.holes
        assert cell == lake.goal
        assert len(path) == _distance_by_relaxation(lake)


def _distance_by_relaxation(lake: Lake) -> int:
    """Distance from start to goal by repeated relaxation, a method of its own."""
    places = range(lake.size)
    cells = [(r, c) for r in places for c in places if (r, c) not in lake.holes]
    distance = dict.fromkeys(cells, 10**6) | {lake.goal: 0}
    for _ in cells:
        for cell in cells:
            near = [distance[there] for move in MOVES if (there := lake.moved(cell, move)) in distance]
            distance[cell] = min(distance[cell], 1 + min(near))
    return distance[lake.start]


def test_every_lake_has_a_path_and_start_and_goal_vary() -> None:
    task = FrozenLakeTask(p_frozen=0.6)
    starts, goals = set(), set()
    for seed in range(100):
        task.reset(seed=seed)
        assert task.solve()
        starts.add(task.lake.start)
        goals.add(task.lake.goal)
    assert len(starts) > 10
    assert len(goals) > 10


def test_path_cells_follow_the_plan_without_slips() -> None:
    task = _find("free", success_rate=0.8)
    row, column = task.player
    assert task.path_cells(["Right", "Up"]) == [(row, column + 1), (row - 1, column + 1)]
    assert task.describe_positions().startswith(f"Player {row} {column} Goal ")


def test_planning_on_certain_ice_is_the_shortest_path() -> None:
    task = FrozenLakeTask(success_rate=1.0)
    for seed in range(30):
        task.reset(seed=seed)
        length = len(task.solve() or [])
        for budget in (1, 2, 3, 10):
            assert task.best_success(5, 5, budget) == pytest.approx(float(length <= budget))


def test_planning_agrees_with_brute_force_over_open_loop_turns() -> None:
    """Two turns of two actions, by trying every first pair and every second pair after every outcome."""
    task = FrozenLakeTask(success_rate=0.6, p_frozen=0.8)
    for seed in range(15):
        task.reset(seed=seed)
        moves, goal = task._transitions(), task._goal
        pairs = [moves[a] @ moves[b] for a, b in product(range(4), repeat=2)]
        second = np.max([pair[:, goal] for pair in pairs], axis=0)
        start = task.player[0] * 4 + task.player[1]
        expected = max(float((pair @ second)[start]) for pair in pairs)
        assert task.best_success(2, 2, 4) == pytest.approx(expected)


def test_looking_more_often_never_hurts_and_blind_is_never_better() -> None:
    task = FrozenLakeTask(success_rate=0.7)
    for seed in range(15):
        task.reset(seed=seed)
        one_by_one, pairs, one_turn = (task.best_success(*caps) for caps in ((6, 1, 6), (3, 2, 6), (1, 5, 5)))
        assert one_by_one >= pairs - 1e-12
        assert pairs >= one_turn - 1e-12
        assert one_turn >= task.blind_success((RIGHT, DOWN, RIGHT, DOWN, LEFT)) - 1e-12


def test_transition_rows_are_chances() -> None:
    matrices = _task_at(success_rate=0.8)._transitions()
    assert matrices.shape == (4, 16, 16)
    np.testing.assert_allclose(matrices.sum(axis=2), 1.0)
    assert best_success(matrices, goal=0, max_turns=1, max_actions_per_turn=1, max_actions=1).shape == (16,)


@pytest.mark.parametrize(
    "settings", [{"size": 1}, {"p_frozen": 0.0}, {"success_rate": 1.2}, {"success_rate": 0.0}, {"pool_size": 0}]
)
def test_settings_out_of_range_are_refused_by_name(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        FrozenLakeTask(**settings)  # type: ignore[arg-type]
