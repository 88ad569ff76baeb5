"""Groups are shared out by weight: near the exact share at every point, the same however a run is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragen_envs.seeds import BLOCK
from rllib_ragen.rollout.shares import shared_out
from rllib_ragen.rollout.specs import mixed_specs

WEIGHTS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6)


@given(WEIGHTS, st.integers(0, 500), st.integers(1, 60))
def test_a_run_that_is_cut_deals_as_one_that_is_not(weights: list[float], first: int, count: int) -> None:
    whole = shared_out(weights, 0, first + count)
    assert shared_out(weights, first, count) == whole[first:]
    for env in range(len(weights)):
        assert [turn.before for turn in whole if turn.env == env] == list(range(sum(t.env == env for t in whole)))


@given(WEIGHTS, st.integers(1, 400))
def test_everybody_is_near_their_share(weights: list[float], groups: int) -> None:
    dealt = [0] * len(weights)
    for turn in shared_out(weights, 0, groups):
        dealt[turn.env] += 1
    for have, weight in zip(dealt, weights, strict=True):
        assert abs(have - groups * weight / sum(weights)) < max(1.0, len(weights) / 2 + 0.5)


def test_two_to_one_and_a_weight_that_is_small() -> None:
    assert [turn.env for turn in shared_out([2, 1], 0, 6)] == [0, 1, 0, 0, 1, 0]
    turns = shared_out([1.0, 0.01], 0, 1000)
    assert sum(turn.env for turn in turns) in (9, 10), "it gets its turns, though a batch of 8 has none for it"


def test_a_long_run_is_dealt_from_its_middle_at_once() -> None:
    (turn,) = shared_out([1, 2], BLOCK - 1, 1)
    assert turn.before in (BLOCK // 3, 2 * BLOCK // 3 - 1, 2 * BLOCK // 3)


def test_groups_are_of_one_environment_and_instances_are_gone_through_without_gaps() -> None:
    turns = shared_out([2, 1], 0, 12)
    specs = mixed_specs(5, turns, 3, ["a", "b"], lambda turn: -1 if turn.env == 0 else turn.before % 2)
    by_group = {spec.group_id: [other for other in specs if other.group_id == spec.group_id] for spec in specs}
    assert len(by_group) == 12
    for own in by_group.values():
        assert len(own) == 3 and len({(one.env, one.level, one.env_seed) for one in own}) == 1
        assert len({one.sampling_seed for one in own}) == len({one.outcome_seed for one in own}) == 3
    seeds = sorted({spec.env_seed for spec in specs if spec.env == "a"})
    assert seeds == list(range(seeds[0], seeds[0] + 8)), "a pool of instances (seed modulo its size) is used evenly"
    levels = {level: {s.env_seed for s in specs if s.env == "b" and s.level == level} for level in (0, 1)}
    assert not levels[0] & levels[1] and not (levels[0] | levels[1]) & set(seeds)
    assert specs[3:9] == mixed_specs(5, turns[1:3], 3, ["a", "b"], lambda turn: -1 if turn.env == 0 else 0)
    assert specs[0].options == {"split": "train", "outcome_seed": specs[0].outcome_seed, "env": "a"}
