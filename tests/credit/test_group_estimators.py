"""GRPO, Dr. GRPO, RAFT and RLOO against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.filters import filter_groups
from rllib_ragen.credit.group_scores import group_reward_stds
from rllib_ragen.credit.groups import ROUNDING, centred, reward_std
from rllib_ragen.credit.normalise import normalised_rewards
from rllib_ragen.credit.registry import estimator_names, make_estimator
from rllib_ragen.credit.weighting import loss_weights
from rllib_ragen.types import Trajectory
from tests.credit.build import group_of, trajectory

GROUP_ESTIMATORS = ["dr_grpo", "grpo", "raft", "rloo"]


def advantage_per_trajectory(name: str, trajectories: Sequence[Trajectory]) -> list[float]:
    """The one advantage on all trained tokens of each trajectory; asserts that it is one, and 0 elsewhere."""
    credits = make_estimator(CreditSection(estimator=name))(trajectories)
    assert len(credits) == len(trajectories)
    found = []
    for item, credit in zip(trajectories, credits, strict=True):
        trained = item.turn_index() >= 0
        assert credit.advantages.dtype == credit.returns.dtype == np.float32
        assert not credit.advantages[~trained].any() and not credit.returns.any()
        assert len(set(credit.advantages[trained])) == 1
        found.append(float(credit.advantages[trained][0]))
    return found


RAGGED = [
    trajectory("a", [(4, 2, 0.0), (3, 5, 1.0)]),  # a zero-reward turn, then the goal: R = 1
    trajectory("a", [(4, 1, -0.1), (2, 2, -0.1), (2, 9, 0.0)]),  # three turns: R = −0.2
    trajectory("a", [(4, 3, 0.0)]),  # all zero: R = 0
]  # mean 0.8/3 = 0.2666…; squared deviations 0.53777…, 0.21777…, 0.07111…: var = 0.82666…/2, std = 0.642910…


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dr_grpo", [0.7333333, -0.4666667, -0.2666667]),
        ("raft", [(1 - 0.8 / 3) / (1 + 0.2), 0, 0]),  # (R − mean)/(max − min) where it is above 0
        ("rloo", [1 - (-0.2 + 0) / 2, -0.2 - (1 + 0) / 2, 0 - (1 - 0.2) / 2]),  # R − mean of the two others
        ("grpo", [1.1406466, -0.7258660, -0.4147806]),  # the dr_grpo row / (0.642910 + 1e-6)
    ],
)
def test_ragged_turns_match_the_hand_computed_case(name: str, expected: list[float]) -> None:
    assert advantage_per_trajectory(name, RAGGED) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_another_group_in_the_batch_changes_nothing(name: str) -> None:
    alone = advantage_per_trajectory(name, RAGGED)
    mixed = [RAGGED[0], *group_of("b", [5.0, -5.0]), RAGGED[1], RAGGED[2]]
    assert advantage_per_trajectory(name, mixed)[0::3] == [alone[0], alone[1]]
    assert advantage_per_trajectory(name, mixed)[4] == alone[2]


COMPARING = [name for name in estimator_names() if make_estimator(CreditSection(estimator=name)).needs_group]


@pytest.mark.parametrize("name", COMPARING)
@pytest.mark.parametrize("alone", [10.6, -0.7, 0.0])
def test_a_group_that_failures_have_shrunk_to_one_teaches_nothing(name: str, alone: float) -> None:
    """Not its raw return, which is many times what compared trajectories get; and it does not move theirs."""
    estimator = make_estimator(CreditSection(estimator=name))
    # Twice in the same state: within one trajectory, too, there would be turns to compare.
    lone = trajectory("a", [(2, 3, alone), (1, 2, 0.5)], states="ss")
    others = [*group_of("b", [1.0, 0.0]), *group_of("c", [2.0, 2.0, 0.5])]
    first, *rest = estimator([lone, *others])
    assert not first.advantages.any()
    for found, expected in zip(rest, estimator(others), strict=True):
        np.testing.assert_array_equal(found.advantages, expected.advantages)
    assert not estimator([lone])[0].advantages.any()


@pytest.mark.parametrize("grouping", ["group", "inductive", "batch"])
@pytest.mark.parametrize("method", ["mean", "mean_std", "asym_clip"])
@pytest.mark.parametrize("name", COMPARING)
def test_nor_does_it_after_its_rewards_are_normalised(name: str, method: str, grouping: str) -> None:
    section = CreditSection.model_validate({"estimator": name, "reward_norm": method, "reward_grouping": grouping})
    lone = group_of("a", [10.6])
    batch = normalised_rewards([*lone, *group_of("b", [1.0, 0.0])], section)
    assert not make_estimator(section)(batch)[0].advantages.any()


@pytest.mark.parametrize("strategy", ["none", "top_k", "top_p", "top_p_softmax", "min_p", "top_k_abs"])
def test_a_group_of_one_has_no_spread_for_a_filter(strategy: str) -> None:
    section = CreditSection.model_validate({"filter": strategy, "filter_value": 1.0})
    found = filter_groups([*group_of("a", [10.6]), *group_of("b", [1.0, 0.0])], section)
    assert {t.group_id for t in found.kept} == ({"a", "b"} if strategy == "none" else {"b"})
    assert found.metrics["zero_spread_groups"] == 1
    assert group_reward_stds(group_of("a", [10.6])) == {"a": 0.0}


def test_a_soft_weight_of_a_group_of_one_is_none() -> None:
    section = CreditSection.model_validate({"group_weighting": "spread"})
    assert loss_weights([*group_of("a", [10.6]), *group_of("b", [1.0, 0.0])], 1.0, section)[0] == 0.0


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
@pytest.mark.parametrize("returns", [[0.0, 0.0, 0.0], [0.1, 0.1, 0.1], [-0.3, -0.3]])
def test_a_constant_group_has_exactly_no_advantage(name: str, returns: list[float]) -> None:
    assert advantage_per_trajectory(name, group_of("a", returns)) == [0.0] * len(returns)


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_returns_that_differ_only_by_rounding_are_equal(name: str) -> None:
    summed = trajectory("a", [(2, 1, -0.1), (1, 1, -0.1), (1, 1, -0.1)])
    assert summed.episode_return != -0.3
    assert advantage_per_trajectory(name, [summed, *group_of("a", [-0.3])]) == [0.0, 0.0]


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_an_episode_without_a_sampled_token_gets_empty_credit(name: str) -> None:
    credits = make_estimator(CreditSection(estimator=name))([trajectory("a", []), *group_of("a", [1.0])])
    assert credits[0].advantages.shape == (0,)


def test_unknown_estimator_names_key_and_allowed_values() -> None:
    with pytest.raises(ValueError, match=r"credit\.estimator.*'gpro'.*dr_grpo, gae, gigpo, grpo, "):
        make_estimator(CreditSection(estimator="gpro"))


def test_every_name_makes_an_estimator_that_says_what_it_needs() -> None:
    needs = {name: make_estimator(CreditSection(estimator=name)) for name in estimator_names()}
    assert [name for name, estimator in needs.items() if estimator.needs_values] == ["bi_level_gae", "gae"]
    turn_by_turn = ["gigpo", "turn_grpo", "reinforce++_baseline"]
    compare = sorted([*GROUP_ESTIMATORS, *turn_by_turn])
    assert [name for name, estimator in needs.items() if estimator.needs_group] == compare
    assert [name for name, estimator in needs.items() if estimator.chosen_only] == ["raft"]


def test_returns_that_differ_by_as_much_as_rounding_may_are_different() -> None:
    apart = np.array([0.0, ROUNDING])
    assert reward_std(apart) == pytest.approx(ROUNDING / 2**0.5) and centred(apart).tolist() == [
        -ROUNDING / 2,
        ROUNDING / 2,
    ]
    closer = apart * 0.999
    assert reward_std(closer) == 0.0 and centred(closer).tolist() == [0.0, 0.0]


def test_statistics_of_a_group_are_the_same_to_the_last_bit_in_any_order() -> None:
    orders = [np.array(order) for order in permutations([0.1, 0.2, 0.3, 0.7, -1.1])]
    assert len({reward_std(order) for order in orders}) == 1
    assert len({float(centred(order)[list(order).index(0.7)]) for order in orders}) == 1
