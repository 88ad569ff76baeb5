"""Reward normalisation and factors on the loss: by hand, and what must never move."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.filters import filter_groups
from rllib_ragen.credit.normalise import normalised_rewards
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.credit.rows import to_rows
from rllib_ragen.credit.token_axis import token_rewards
from rllib_ragen.credit.weighting import loss_weights
from rllib_ragen.types import Trajectory
from tests.credit.build import group_of, trajectory

# Returns 1, 0 | 3, 3, 0: means ½, 2; stds √½ = 0.7071, √3 = 1.7321. Batch: mean 1.4, std √(9.2/4) = 1.5166.
BATCH = [*group_of("a", [1.0, 0.0]), *group_of("b", [3.0, 3.0, 0.0])]


def returns_after(batch: list[Trajectory], method: str, grouping: str = "group") -> list[float]:
    section = CreditSection.model_validate({"reward_norm": method, "reward_grouping": grouping})
    return [t.episode_return for t in normalised_rewards(batch, section)]


@pytest.mark.parametrize(
    ("method", "grouping", "expected"),
    [
        ("none", "group", [1, 0, 3, 3, 0]),
        ("mean", "group", [0.5, -0.5, 1, 1, -2]),
        ("mean", "batch", [-0.4, -1.4, 1.6, 1.6, -1.4]),
        ("mean", "inductive", [-0.4, -1.4, 1.6, 1.6, -1.4]),  # one role
        ("mean_std", "group", [0.7071058, -0.7071058, 0.5773499, 0.5773499, -1.1546999]),
        ("mean_std", "batch", [-0.2637519, -0.9231317, 1.0550076, 1.0550076, -0.9231317]),
        ("asym_clip", "group", [0.7071058, -0.7071058, 0.5773499, 0.5773499, -1]),
    ],
)
def test_returns_are_the_hand_computed_ones(method: str, grouping: str, expected: list[float]) -> None:
    assert returns_after(BATCH, method, grouping) == pytest.approx(expected, abs=1e-6)


def test_inductive_statistics_are_those_of_a_roles_trajectories_of_all_groups() -> None:
    batch = [*group_of("a", [1.0, 0.0]), *group_of("b", [3.0, 3.0, 0.0])]
    for i in (0, 2, 4):  # returns 1, 3, 0: mean 4/3; the others' 0, 3: mean 1.5
        batch[i].agent_id = "second"
    assert returns_after(batch, "mean", "inductive") == pytest.approx([-1 / 3, -1.5, 5 / 3, 1.5, -4 / 3])
    for i in (1, 3):
        batch[i].module_id = "other"
    assert returns_after(batch, "mean", "inductive") == pytest.approx([-1 / 3, -1.5, 5 / 3, 1.5, -4 / 3])


def test_asym_clip_also_bounds_above() -> None:
    batch = group_of("a", [0.0] * 19 + [1.0])  # (1 − 0.05)/0.2236 = 4.2485
    assert returns_after(batch, "asym_clip")[-1] == 3
    assert returns_after(batch, "mean_std")[-1] == pytest.approx(4.2485, abs=1e-4)


@pytest.mark.parametrize("method", ["mean", "mean_std", "asym_clip"])
@pytest.mark.parametrize("returns", [[0.1, 0.1, 0.1], [0.7]])
def test_groups_without_spread_have_exactly_nothing(method: str, returns: list[float]) -> None:
    assert returns_after(group_of("a", returns), method) == pytest.approx([0] * len(returns), abs=1e-15)


def test_turns_keep_their_proportions_and_the_last_one_takes_the_shift() -> None:
    batch = [trajectory("a", [(1, 1, 0.5), (1, 1, 0.0), (1, 1, 0.5)]), *group_of("a", [0.0])]
    section = CreditSection(reward_norm="mean_std")
    first, _ = normalised_rewards(batch, section)
    scale = 1 / (0.5**0.5 + 1e-6)
    assert [turn.reward for turn in first.turns] == pytest.approx([0.5 * scale, 0, 0.5 * scale - 0.5 * scale])
    assert token_rewards(first, True).sum() == pytest.approx(first.episode_return)
    assert [turn.reward for turn in batch[0].turns] == [0.5, 0.0, 0.5], "the raw rewards stay what they were"


def test_empty_batches_and_empty_episodes_pass() -> None:
    for grouping in ("group", "inductive", "batch"):
        assert returns_after([], "mean_std", grouping) == []
        assert returns_after([trajectory("a", [])], "mean_std", grouping) == [0]


def test_C6_normalisation_changes_nothing_that_a_filter_reads() -> None:
    section = CreditSection.model_validate({"filter": "top_k_abs", "filter_value": 1, "reward_norm": "mean_std"})
    assert {t.group_id for t in filter_groups(BATCH, section).kept} == {"b"}


@pytest.mark.parametrize(
    ("scaling", "weighting", "expected"),
    [
        ("none", "none", [1, 1, 1, 1, 1]),
        ("linear", "none", [0.25] * 5),
        ("sqrt", "none", [0.5] * 5),
        ("none", "spread", [0.4082480, 0.4082480, 0.9999994, 0.9999994, 0.9999994]),  # 0.7071/1.7321
        ("sqrt", "spread", [0.2041240, 0.2041240, 0.4999997, 0.4999997, 0.4999997]),
    ],
)
def test_factors_on_the_loss_are_the_hand_computed_ones(scaling: str, weighting: str, expected: list[float]) -> None:
    section = CreditSection.model_validate({"loss_scaling": scaling, "group_weighting": weighting})
    weights = loss_weights(BATCH, 0.25, section)
    assert weights == pytest.approx(expected, abs=1e-6)
    credits = make_estimator(section)(BATCH)
    rows = to_rows(BATCH, credits, None, "none", weights)
    assert [row.weight for row in rows] == weights
    plain = to_rows(BATCH, credits, None, "none")
    assert [row.weight for row in plain] == [1.0] * 5
    assert all((a.advantages == b.advantages).all() for a, b in zip(rows, plain, strict=True))


def test_no_groups_and_groups_without_spread_have_finite_factors() -> None:
    section = CreditSection(group_weighting="spread", loss_scaling="linear")
    assert loss_weights([], 0.0, section) == []
    assert loss_weights(group_of("a", [0.1, 0.1]), 1.0, section) == [0, 0]


RETURNS = st.one_of(st.sampled_from([-0.3, -0.1, 0.0, 1.0, 10.9]), st.floats(-11, 11, width=32))
GROUPS = st.lists(st.lists(RETURNS, min_size=1, max_size=5), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    groups=GROUPS,
    method=st.sampled_from(["mean", "mean_std", "asym_clip"]),
    grouping=st.sampled_from(["group", "inductive", "batch"]),
    order=st.randoms(use_true_random=False),
)
def test_normalisation_is_bounded_ordered_and_blind_to_the_batchs_order(
    groups: list[list[float]], method: str, grouping: str, order: object
) -> None:
    batch = [t for index, returns in enumerate(groups) for t in group_of(f"g{index}", returns)]
    after = returns_after(batch, method, grouping)
    assert np.isfinite(after).all()
    shuffled = list(range(len(batch)))
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert returns_after([batch[i] for i in shuffled], method, grouping) == pytest.approx([after[i] for i in shuffled])
    if grouping != "group":
        ranks = np.argsort([t.episode_return for t in batch], kind="stable")
        assert (np.diff(np.array(after)[ranks]) >= -1e-9).all()


@settings(max_examples=50, deadline=None)
@given(groups=GROUPS, extra=GROUPS, method=st.sampled_from(["mean", "mean_std", "asym_clip"]))
def test_other_groups_never_move_a_groups_normalised_rewards(
    groups: list[list[float]], extra: list[list[float]], method: str
) -> None:
    batch = [t for index, returns in enumerate(groups) for t in group_of(f"g{index}", returns)]
    others = [t for index, returns in enumerate(extra) for t in group_of(f"x{index}", returns)]
    assert returns_after([*batch, *others], method)[: len(batch)] == returns_after(batch, method)


def test_centring_leaves_the_scale_of_turns() -> None:
    batch = [trajectory("a", [(1, 1, 0.5), (1, 1, 0.0), (1, 1, 0.5)]), *group_of("a", [0.0])]
    first, _ = normalised_rewards(batch, CreditSection(reward_norm="mean"))
    assert [turn.reward for turn in first.turns] == pytest.approx([0.5, 0.0, 0.0])


@pytest.mark.parametrize("method", ["mean_std", "asym_clip"])
def test_turns_of_a_group_without_spread_keep_their_scale(method: str) -> None:
    batch = [trajectory("a", [(1, 1, 0.5), (1, 1, 0.25)]) for _ in range(2)]
    for after in normalised_rewards(batch, CreditSection.model_validate({"reward_norm": method})):
        assert [turn.reward for turn in after.turns] == pytest.approx([0.5, -0.5])
