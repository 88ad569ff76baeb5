"""Dynamic sampling: flat groups are replaced within a budget, nothing is played twice, and a resumed run is exact."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_ragen.credit.group_scores import group_reward_stds
from rllib_ragen.starpo.dynamic_sampling import sample_with_reward_std
from rllib_ragen.types import StopReason, Trajectory
from tests.credit.build import group_of, trajectory
from tests.starpo.build import digits_config

LIVE, FLAT = [1.0, 0.0], [0.5, 0.5]


class Sampler:
    """Plays groups with the given returns, in order; flat ones when these are used up."""

    def __init__(self, *groups: list[float]) -> None:
        self.groups = list(groups)
        self.asked: list[int] = []

    def __call__(self, num_groups: int) -> list[Trajectory]:
        first = sum(self.asked)
        self.asked.append(num_groups)
        drawn = [self.groups.pop(0) if self.groups else FLAT for _ in range(num_groups)]
        return [t for index, returns in enumerate(drawn) for t in group_of(f"g{first + index}", returns)]


def test_as_many_groups_are_drawn_again_as_lack() -> None:
    sampler = Sampler(LIVE, FLAT, FLAT, LIVE, FLAT, LIVE)
    played, metrics = sample_with_reward_std(sampler, 3, max_rounds=5)
    assert sampler.asked == [3, 2, 1]
    assert [t.group_id for t in played[::2]] == [f"g{i}" for i in range(6)]
    assert metrics == {"sampling_rounds": 3, "sampled_groups": 6}


def test_the_budget_ends_the_search() -> None:
    sampler = Sampler()
    played, metrics = sample_with_reward_std(sampler, 4, max_rounds=2)
    assert sampler.asked == [4, 4, 4] and len(played) == 24
    assert metrics == {"sampling_rounds": 3, "sampled_groups": 12}


@pytest.mark.parametrize(("groups", "rounds"), [([LIVE, LIVE], 9), ([FLAT, FLAT], 0)])
def test_a_full_batch_and_no_budget_mean_one_round(groups: list[list[float]], rounds: int) -> None:
    sampler = Sampler(*groups)
    assert sample_with_reward_std(sampler, 2, rounds)[1] == {"sampling_rounds": 1, "sampled_groups": 2}
    assert sampler.asked == [2]


@settings(max_examples=100, deadline=None)
@given(groups=st.lists(st.sampled_from([LIVE, FLAT]), max_size=20), wanted=st.integers(1, 6), rounds=st.integers(0, 4))
def test_it_stops_when_full_and_only_then_or_at_the_end_of_its_budget(
    groups: list[list[float]], wanted: int, rounds: int
) -> None:
    sampler = Sampler(*groups)
    played, metrics = sample_with_reward_std(sampler, wanted, rounds)
    live = sum(std > 0 for std in group_reward_stds(played).values())
    assert live <= wanted and (live == wanted or len(sampler.asked) == rounds + 1)
    assert metrics == {"sampling_rounds": len(sampler.asked), "sampled_groups": sum(sampler.asked)}
    assert sum(sampler.asked) <= wanted * (rounds + 1) and all(sampler.asked)


def test_C2_a_failure_is_no_spread() -> None:
    failed = trajectory("g0", [(2, 3, -9.0)], StopReason.ENV_ERROR)
    draws = iter([[*group_of("g0", FLAT), failed], group_of("g1", LIVE)])
    played, metrics = sample_with_reward_std(lambda num_groups: next(draws), 1, max_rounds=3)
    assert metrics["sampling_rounds"] == 2
    assert any(t is failed for t in played), "it counts as sampled, so that failures are seen"


@pytest.mark.usefixtures("local_ray")
def test_updates_use_exactly_the_groups_with_spread_and_statistics_all(model: Path) -> None:
    algo = digits_config(model, dynamic_sampling_rounds=3, group_size=2, num_groups=8).build_algo()
    found: set[str] = set()
    for _ in range(3):
        result = algo.train()["starpo"]
        played = algo.last_trajectories()
        reward_stds = group_reward_stds(played)
        live = {group for group, std in reward_stds.items() if std > 0}
        assert result["sampled_groups"] == result["num_groups"] == len(reward_stds) > 8, "some of the first 8 were flat"
        assert result["sampling_rounds"] > 1
        assert result["kept_groups"] == len(live) <= 8
        assert result["num_trained_tokens"] == sum(t.num_reply_tokens for t in played if t.group_id in live)
        assert result["return_mean"] == pytest.approx(sum(t.episode_return for t in played) / len(played))
        assert not found & set(reward_stds), "a group is played twice"
        found |= set(reward_stds)
    assert found == {str(number) for number in range(len(found))}, "group numbers are used up one by one"
    algo.stop()


@pytest.mark.usefixtures("local_ray")
def test_a_batch_that_stays_flat_is_skipped_like_any_other(model: Path) -> None:
    algo = digits_config(model, env={"pay": 0.0}, dynamic_sampling_rounds=2, max_empty_updates=1).build_algo()
    result = algo.train()["starpo"]
    assert (result["sampling_rounds"], result["sampled_groups"], result["kept_groups"]) == (3, 12, 0)
    assert (result["num_trained_tokens"], result["policy_version"]) == (0, 0)
    assert algo.stop_reason is not None
    algo.stop()
