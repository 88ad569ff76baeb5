"""Success of an evaluation and its error, over distinct instances: hand-computed cases."""

from __future__ import annotations

import math

import pytest

from rllib_ragen.rollout.episodes import LiveEpisode
from rllib_ragen.rollout.statistics import clustered_error, evaluation_statistics, success_by_instance
from rllib_ragen.rollout.trajectory_json import from_json, to_json
from rllib_ragen.types import StopReason, Trajectory


def episode(key: str, success: bool, stop: StopReason = StopReason.GOAL, seed: int = 0) -> Trajectory:
    return Trajectory("0", seed, 0, stop_reason=stop, success=success, instance_key=key)


def test_the_error_is_over_instances_not_over_episodes() -> None:
    """Two instances, one always solved and one never: as wide as it can be, however often they are played."""
    for repeats in (1, 10, 100):
        played = [episode(key, key == "easy") for key in ("easy", "hard") for _ in range(repeats)]
        found = evaluation_statistics(played)
        # std (ddof 1) of 1 and 0 is √½; over √2: ½
        assert found["success_error"] == pytest.approx(0.5)
        assert (found["success"], found["distinct_instances"]) == (0.5, 2)


def test_four_instances_of_unequal_size() -> None:
    """Means 1, 0, ½, ¾: mean 9/16, var (ddof 1) 35/192 = .182292, std .426956, error .213478."""
    played = [
        *(episode("a", True),),
        *(episode("b", False) for _ in range(7)),
        *(episode("c", success) for success in (True, False)),
        *(episode("d", success) for success in (True, True, True, False)),
    ]
    found = evaluation_statistics(played)
    assert found["success"] == pytest.approx(9 / 16)
    assert found["success_error"] == pytest.approx(0.213478, abs=1e-6)
    assert found["distinct_instances"] == 4


def test_with_every_instance_once_it_is_the_binomial_error() -> None:
    played = [episode(str(k), k < 64) for k in range(256)]
    # √(¼ · ¾ / 255)
    assert evaluation_statistics(played)["success_error"] == pytest.approx(math.sqrt(0.25 * 0.75 / 255))


def test_bandits_test_split_is_eight_instances_not_256() -> None:
    """5 of 8 solved, each played 32 times: ± 18.3 %, where episodes would say ± 3 %."""
    played = [episode(str(k % 8), k % 8 < 5) for k in range(256)]
    found = evaluation_statistics(played)
    assert found["distinct_instances"] == 8
    assert found["success_error"] == pytest.approx(0.182982, abs=1e-6)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_instances_claim_no_error(count: int) -> None:
    found = evaluation_statistics([episode("a", k % 2 == 0) for k in range(40 * count)])
    assert math.isnan(found["success_error"]) and found["distinct_instances"] == count
    assert math.isnan(clustered_error([0.5] * count))


def test_failed_episodes_do_not_count_and_keyless_instances_are_told_apart_by_their_seeds() -> None:
    played = [
        episode("a", True),
        episode("a", False, StopReason.ENV_ERROR),
        episode("b", True, StopReason.ENGINE_ERROR),
        *(episode("", False, seed=seed) for seed in (3, 3, 4)),
    ]
    found = success_by_instance(played)
    assert sorted(found.values()) == [0.0, 0.0, 1.0]
    assert all(len(key) == 12 for key in found), "a digest: keys may be whole grids"


def test_a_key_survives_rllibs_episodes_and_files() -> None:
    one = episode("#P_\n#O_", True)
    assert LiveEpisode(one).close().trajectory.instance_key == from_json(to_json(one)).instance_key == "#P_\n#O_"
    old = {name: value for name, value in to_json(one).items() if name != "instance_key"}
    assert from_json(old).instance == "seed 0", "what earlier versions wrote is read"
