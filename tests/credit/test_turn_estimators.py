"""GiGPO and turn-level GRPO against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.types import StopReason, Trajectory
from tests.credit.build import group_of, trajectory

BOTH = ["gigpo", "turn_grpo"]


def per_turn(name: str, batch: Sequence[Trajectory], **section: object) -> list[list[float]]:
    """The one advantage of each turn; asserts that it is on all of the turn's tokens, and 0 elsewhere."""
    credits = make_estimator(CreditSection.model_validate({"estimator": name, **section}))(batch)
    found = []
    for item, credit in zip(batch, credits, strict=True):
        turn_index = item.turn_index()
        assert credit.advantages.dtype == np.float32 and not credit.returns.any()
        assert not credit.advantages[turn_index < 0].any()
        of_turns = [set(credit.advantages[turn_index == k].tolist()) for k in range(len(item.turns))]
        assert all(len(numbers) == 1 for numbers in of_turns)
        found.append([numbers.pop() for numbers in of_turns])
    return found


# States s and u; γ ½. Returns to go: ½, 1 · −0.1, 0, 0 · 0. The last episode is all-zero.
BATCH = [
    trajectory("a", [(4, 2, 0.0), (3, 5, 1.0)], states="su"),
    trajectory("a", [(4, 1, -0.1), (2, 2, 0.0), (2, 9, 0.0)], states="ssu"),
    trajectory("a", [(4, 3, 0.0)], states="s"),
]
# Episodes, R = 1, −0.1, 0: mean 0.3, std 0.6082763 → 1.1507910, −0.6575949, −0.4931962
SECTION = {"turn_gamma": 0.5, "turn_weight": 2.0}


def test_gigpo_adds_the_advantage_among_turns_in_the_same_state() -> None:
    # s: ½, −0.1, 0, 0: mean 0.1, std 0.2708013 → 1.4770924, −0.7385462, −0.3692731 twice; u: 1, 0 → ±0.7071058
    expected = [
        [1.1507910 + 2 * 1.4770924, 1.1507910 + 2 * 0.7071058],
        [-0.6575949 - 2 * 0.7385462, -0.6575949 - 2 * 0.3692731, -0.6575949 - 2 * 0.7071058],
        [-0.4931962 - 2 * 0.3692731],
    ]
    for found, wanted in zip(per_turn("gigpo", BATCH, **SECTION), expected, strict=True):
        assert found == pytest.approx(wanted, abs=1e-6)


def test_turn_grpo_adds_the_advantage_among_turns_of_the_same_number() -> None:
    # turn 0: ½, −0.1, 0: mean 0.1333333, std 0.3214550 → 1.1406433, −0.7258639, −0.4147794; turn 1: ±0.7071058;
    # turn 2 is alone
    expected = [
        [1.1507910 + 2 * 1.1406433, 1.1507910 + 2 * 0.7071058],
        [-0.6575949 - 2 * 0.7258639, -0.6575949 - 2 * 0.7071058, -0.6575949],
        [-0.4931962 - 2 * 0.4147794],
    ]
    for found, wanted in zip(per_turn("turn_grpo", BATCH, **SECTION), expected, strict=True):
        assert found == pytest.approx(wanted, abs=1e-6)


def test_gigpo_without_a_state_that_comes_twice_is_grpo() -> None:
    batch = [trajectory("a", [(1, 1, 1.0), (1, 1, 0.5)], states="pq"), trajectory("a", [(1, 1, 0.0)], states="r")]
    grpo = make_estimator(CreditSection(estimator="grpo"))(batch)
    gigpo = make_estimator(CreditSection(estimator="gigpo"))(batch)
    assert [c.advantages.tolist() for c in gigpo] == [c.advantages.tolist() for c in grpo]


@pytest.mark.parametrize("name", BOTH)
def test_with_weight_0_only_the_episode_counts(name: str) -> None:
    found = per_turn(name, BATCH, turn_weight=0.0)
    assert found[1] == pytest.approx([-0.6575949] * 3, abs=1e-6)


def test_gigpo_compares_within_the_group_only() -> None:
    alone = per_turn("gigpo", BATCH, **SECTION)
    other = [trajectory("b", [(1, 1, 9.0)], states="s"), trajectory("b", [(1, 1, -9.0)], states="s")]
    assert per_turn("gigpo", [other[0], *BATCH, other[1]], **SECTION)[1:4] == alone


@pytest.mark.parametrize("name", BOTH)
def test_a_group_of_one_has_nothing(name: str) -> None:
    assert make_estimator(CreditSection(estimator=name)).needs_group
    assert per_turn(name, [trajectory("a", [(1, 1, 0.25), (1, 1, 0.5)])]) == [[0.0, 0.0]]


@pytest.mark.parametrize("name", BOTH)
def test_all_zero_groups_have_no_advantage_and_empty_episodes_pass(name: str) -> None:
    batch = [*group_of("a", [0.0, 0.0]), trajectory("a", [(2, 1, 0.0), (1, 2, 0.0)]), trajectory("a", [])]
    assert not any(np.concatenate([np.asarray(turns) for turns in per_turn(name, batch)]))


@pytest.mark.parametrize("name", BOTH)
def test_equal_returns_in_a_different_order_differ_turn_by_turn(name: str) -> None:
    """What an advantage per episode cannot see: who was paid early."""
    early = trajectory("a", [(1, 1, 1.0), (1, 1, 0.0)])
    late = trajectory("a", [(1, 1, 0.0), (1, 1, 1.0)])
    (early_first, early_second), (late_first, late_second) = per_turn(name, [early, late])
    assert early_first == -late_first > 0 and late_second == -early_second > 0


@pytest.mark.parametrize("name", BOTH)
def test_a_failed_member_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="failed trajectory"):
        per_turn(name, [*BATCH, trajectory("a", [(1, 1, 0.0)], StopReason.ENV_ERROR)])


def test_gigpo_says_what_it_lacks_when_an_environment_names_no_state() -> None:
    with pytest.raises(ValueError, match=r'gigpo.*group a names none.*info\["state"\]'):
        per_turn("gigpo", [trajectory("a", [(1, 1, reward)], states=[""]) for reward in (0.0, 1.0)])
