"""What of an iteration is kept for people to read."""

from __future__ import annotations

import numpy as np

from rllib_ragen.rollout.trajectory_json import from_json
from rllib_ragen.run.trajectory_sample import sample_records
from rllib_ragen.types import Trajectory
from tests.credit.build import trajectory


def group(name: str, *returns: float) -> list[Trajectory]:
    return [trajectory(name, [(3, 2, value / 2), (1, 4, value / 2)]) for value in returns]


def test_the_group_that_differs_most_is_kept_whole_and_one_member_of_others() -> None:
    played = [*group("a", 0, 1), *group("b", -4, 0, 4), *group("c", 1, 1), *group("d", 0, 0), *group("e", 2, 2)]
    kept = sample_records(played, [None] * len(played))
    assert [(r["group_id"], r["member"]) for r in kept] == [
        ("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("d", 0),
    ]  # fmt: skip
    assert [record["return"] for record in kept][1:4] == [-4, 0, 4]


def test_large_groups_are_cut() -> None:
    played = group("a", *range(20))
    assert [record["member"] for record in sample_records(played, [None] * 20)] == list(range(8))
    assert sample_records([], []) == []


def test_advantages_stand_beside_the_tokens_they_weigh() -> None:
    (played,) = group("a", 1.0)
    advantages = np.where(played.turn_index() == 1, 0.25, np.where(played.turn_index() == 0, -0.5, 0)).astype("f4")
    (record,) = sample_records([played], [advantages])
    assert [turn["advantages"] for turn in record["turns"]] == [[-0.5] * 2, [0.25] * 4]
    np.testing.assert_array_equal(from_json(record).token_ids(), played.token_ids())
