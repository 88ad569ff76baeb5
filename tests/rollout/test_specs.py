"""Which episodes are played: what members of a group share, what no two episodes share, and what is repeated."""

from __future__ import annotations

import pytest

from ragen_envs.seeds import Stream, block_of, seed_of
from ragen_envs.splits import instance_seed
from rllib_ragen.rollout.shares import Turn
from rllib_ragen.rollout.specs import GROUPS_PER_SEED, EpisodeSpec, evaluation_specs, mixed_specs, training_specs


def groups_of(specs: list[EpisodeSpec]) -> list[list[EpisodeSpec]]:
    """By `group_id`, in order of first appearance."""
    found: dict[str, list[EpisodeSpec]] = {}
    for spec in specs:
        found.setdefault(spec.group_id, []).append(spec)
    return list(found.values())


@pytest.mark.parametrize("seed", ["sampling_seed", "outcome_seed"])
@pytest.mark.parametrize("run_seed", [0, 1, 2**31])
def test_no_two_episodes_of_a_run_share_a_seed_of_chance(seed: str, run_seed: int) -> None:
    """Else all members of a group would sample the same replies: no spread, nothing to learn from."""
    specs = training_specs(run_seed, first_group=0, num_groups=20, group_size=8)
    assert len({getattr(spec, seed) for spec in specs}) == len(specs) == 160


def test_the_two_seeds_of_chance_are_different_streams() -> None:
    specs = [*training_specs(0, 0, 20, 8), *evaluation_specs("val", range(20)), *evaluation_specs("test", range(20))]
    assert not {spec.sampling_seed for spec in specs} & {spec.outcome_seed for spec in specs}


def test_members_share_name_and_instance_and_groups_do_not() -> None:
    specs = training_specs(3, first_group=5, num_groups=4, group_size=3)
    groups = groups_of(specs)
    assert [len(members) for members in groups] == [3] * 4
    assert [len({spec.env_seed for spec in members}) for members in groups] == [1] * 4
    assert len({members[0].env_seed for members in groups}) == 4
    assert [members[0].group_id for members in groups] == ["5", "6", "7", "8"]
    assert {spec.split for spec in specs} == {"train"}


def test_groups_have_consecutive_instances() -> None:
    """So that a pool of instances, taken modulo its size, is gone through evenly."""
    first, *others = training_specs(3, first_group=5, num_groups=4, group_size=1)
    assert [spec.env_seed - first.env_seed for spec in others] == [1, 2, 3]
    (before,) = training_specs(3, first_group=0, num_groups=1, group_size=1)
    assert first.env_seed - before.env_seed == 5


def test_a_run_that_goes_on_draws_the_groups_that_it_has_not_drawn() -> None:
    whole = training_specs(3, first_group=0, num_groups=6, group_size=2)
    assert whole == training_specs(3, 0, 2, 2) + training_specs(3, 2, 4, 2)
    larger = training_specs(3, first_group=0, num_groups=6, group_size=3)
    assert [members[:2] for members in groups_of(larger)] == groups_of(whole), "a larger group begins like a smaller"


def test_runs_of_different_seeds_share_nothing() -> None:
    for name in ("env_seed", "outcome_seed", "sampling_seed"):
        drawn = [{getattr(spec, name) for spec in training_specs(seed, 0, 10, 4)} for seed in range(5)]
        assert sum(map(len, drawn)) == len(set.union(*drawn)), name


def test_a_run_has_so_many_groups_and_no_more() -> None:
    (last,) = training_specs(0, GROUPS_PER_SEED - 1, 1, 1)
    (first,) = training_specs(1, 0, 1, 1)
    assert last.env_seed != first.env_seed and GROUPS_PER_SEED >= 1_000_000
    with pytest.raises(ValueError, match=f"{GROUPS_PER_SEED} groups at most"):
        training_specs(0, GROUPS_PER_SEED - 1, 2, 1)


def test_seeds_are_what_a_checkpoint_and_an_environment_can_hold() -> None:
    specs = [*training_specs(0, 0, 50, 4), *evaluation_specs("val", range(50))]
    seeds = [seed for spec in specs for seed in (spec.env_seed, spec.outcome_seed, spec.sampling_seed)]
    assert all(type(seed) is int and 0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**61, "63 bits, not fewer"


def test_evaluation_plays_every_instance_once_with_chances_of_its_own() -> None:
    specs = evaluation_specs("test", range(12))
    assert [spec.env_seed for spec in specs] == [instance_seed("test", number) for number in range(12)]
    assert [spec.group_id for spec in specs] == [f"test-{i}" for i in range(12)]
    assert {spec.split for spec in specs} == {"test"}
    assert [spec.sampling_seed for spec in specs] == [seed_of(Stream.EVALUATION_SAMPLING, 2, i) for i in range(12)]
    assert [spec.outcome_seed for spec in specs] == [seed_of(Stream.EVALUATION_OUTCOME, 2, i) for i in range(12)]
    assert evaluation_specs("test", range(5)) == specs[:5]


def test_a_group_of_several_environments_by_hand() -> None:
    """Two members, environment 1 of two, level 0, after three groups of its own."""
    specs = mixed_specs(7, [Turn(group=9, env=1, before=3)], 2, ["a", "b"], lambda turn: turn.before - 3)
    first = block_of(Stream.TRAINING_INSTANCES, 7, 1, 1)
    for member, spec in enumerate(specs):
        assert (spec.group_id, spec.env_seed, spec.env, spec.level) == ("9", first + 3, "b", 0)
        assert spec.outcome_seed == seed_of(Stream.TRAINING_OUTCOME, 7, 9, member)
        assert spec.sampling_seed == seed_of(Stream.TRAINING_SAMPLING, 7, 9, member)
        assert spec.options == {"split": "train", "outcome_seed": spec.outcome_seed, "env": "b", "level": 0}
    without = mixed_specs(7, [Turn(0, 0, 0)], 1, ["a"], lambda turn: -1)
    assert without[0].env_seed == block_of(Stream.TRAINING_INSTANCES, 7, 0, 0)
    assert (without[0].level, "level" in without[0].options) == (-1, False)


def test_an_episode_of_the_only_environment_has_no_label_and_no_level() -> None:
    spec = EpisodeSpec("0", 1, 2, 3)
    assert (spec.env, spec.level, spec.options) == ("", -1, {"split": "train", "outcome_seed": 2})


def test_groups_of_several_environments_are_used_up_like_those_of_one() -> None:
    assert mixed_specs(0, [], 1, [], lambda turn: 0) == []
    last = [Turn(0, 0, 0), Turn(GROUPS_PER_SEED - 1, 0, 1)]
    assert len(mixed_specs(0, last, 1, ["a"], lambda turn: 0)) == 2
    with pytest.raises(ValueError, match=f"a run has {GROUPS_PER_SEED} groups at most"):
        mixed_specs(0, [Turn(0, 0, 0), Turn(GROUPS_PER_SEED, 0, 1)], 1, ["a"], lambda turn: 0)
