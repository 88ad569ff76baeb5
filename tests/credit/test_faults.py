"""Faults that users of other trainers report, by their codes in the project's list of peers' faults."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.filters import filter_groups
from rllib_ragen.credit.registry import estimator_names, make_estimator
from rllib_ragen.credit.rows import to_rows
from rllib_ragen.types import StopReason, Trajectory
from tests.credit.build import group_of, trajectory

GROUP_ESTIMATORS = ["dr_grpo", "gigpo", "grpo", "rloo", "turn_grpo"]
FAILED = [StopReason.ENV_ERROR, StopReason.ENGINE_ERROR]


def first_advantages(name: str, trajectories: list[Trajectory]) -> list[float]:
    credits = make_estimator(CreditSection(estimator=name))(trajectories)
    return [float(c.advantages[t.turn_index() >= 0][0]) for t, c in zip(trajectories, credits, strict=True)]


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_C1_group_key_is_not_the_trajectory(name: str) -> None:
    members = group_of("a", [1.0, 0.0])
    for index, member in enumerate(members):  # what differs within a group must not split it
        member.outcome_seed = index
        member.agent_id = f"agent_{index}"
    together = first_advantages(name, members)
    assert together[0] == -together[1] > 0
    for member, group in zip(members, ("a", "b"), strict=True):  # and nothing else joins what group_id separates
        member.group_id = group
    assert first_advantages(name, members) != together


@pytest.mark.parametrize("name", estimator_names())
@pytest.mark.parametrize("reason", FAILED)
def test_C2_a_failed_trajectory_is_refused_before_any_statistic(name: str, reason: StopReason) -> None:
    batch = [*group_of("a", [1.0, 0.0]), trajectory("a", [(2, 3, 0.0)], reason)]
    with pytest.raises(ValueError, match=f"failed trajectory .{reason.value}. of group a"):
        make_estimator(CreditSection(estimator=name))(batch, [np.zeros(5, np.float32)] * 3)
    with pytest.raises(ValueError, match="failed trajectory"):
        filter_groups(batch, CreditSection())


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_C2_a_dropped_failure_is_not_a_zero_in_its_groups_baseline(name: str) -> None:
    sampled = [*group_of("a", [1.0, 0.5]), trajectory("a", [(2, 3, 0.0)], StopReason.ENV_ERROR)]
    survivors = [t for t in sampled if not t.stop_reason.failed]
    best, worst = first_advantages(name, survivors)
    assert best == -worst > 0  # around 0.75; counted as a zero, the failure would lift both
    assert first_advantages(name, group_of("a", [1.0, 0.5, 0.0]))[1] == 0


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_C2_long_trajectories_weigh_no_more_in_the_mean(name: str) -> None:
    short = [trajectory("a", [(1, 1, 1.0)]), trajectory("a", [(1, 1, 0.0)])]
    long = [trajectory("a", [(1, 50, 0.5), (1, 50, 0.5)]), trajectory("a", [(1, 1, 0.0)])]
    assert first_advantages(name, long) == first_advantages(name, short)


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_C4_group_returns_sum_every_turn(name: str) -> None:
    """The last turn's reward alone would rank these two the other way round."""
    early = trajectory("a", [(1, 2, 1.0), (1, 2, 0.0)])
    late = trajectory("a", [(1, 2, -0.9), (1, 2, 0.5)])
    best, worst = first_advantages(name, [early, late])
    assert best > 0 > worst


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_C4_the_least_negative_of_negative_siblings_wins(name: str) -> None:
    advantages = first_advantages(name, group_of("a", [-0.5, -0.1, -0.3]))
    assert advantages[1] == max(advantages) > 0 > advantages[0]


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_C5_every_sampled_token_of_every_turn_carries_the_advantage(name: str) -> None:
    batch = [trajectory("a", [(2, 2, 0.0), (3, 1, 0.0), (1, 4, 1.0)]), *group_of("a", [0.0])]
    credit = make_estimator(CreditSection(estimator=name))(batch)[0]
    assert ((credit.advantages != 0) == (batch[0].turn_index() >= 0)).all()


@pytest.mark.parametrize(("strategy", "value"), [("top_p", 0.9), ("top_k", 0.5)])
def test_C6_filters_read_raw_returns(strategy: str, value: float) -> None:
    """Standardised within the group, both have spread 1 and nothing would be filtered."""
    batch = [*group_of("wide", [1.0, -1.0]), *group_of("narrow", [0.001, -0.001])]
    section = CreditSection.model_validate({"filter": strategy, "filter_value": value})
    assert {t.group_id for t in filter_groups(batch, section).kept} == {"wide"}
    standardised = [*group_of("wide", [0.7071, -0.7071]), *group_of("narrow", [0.7064, -0.7064])]
    kept = filter_groups(standardised, CreditSection(filter="top_p")).kept
    assert {t.group_id for t in kept} == {"wide", "narrow"}


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
@pytest.mark.parametrize("normalize", ["none", "batch"])
def test_N2_a_group_without_spread_puts_exact_zeros_before_the_policy_loss(name: str, normalize: str) -> None:
    batch = [*group_of("flat", [0.1, 0.1, 0.1]), *group_of("live", [1.0, 0.0])]
    credits = make_estimator(CreditSection(estimator=name))(batch)
    rows = to_rows(batch, credits, None, CreditSection.model_validate({"normalize": normalize}).normalize)
    assert not any(row.advantages.any() for row in rows[:3])
    assert all(row.advantages.any() for row in rows[3:])


def test_credit_imports_neither_torch_nor_ray() -> None:
    code = (
        "import sys, rllib_ragen.credit.registry, rllib_ragen.credit.filters, rllib_ragen.credit.rows;"
        "sys.exit(bool({'torch', 'ray', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
