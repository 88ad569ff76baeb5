"""Several environments in a batch: each is filtered and credited as if it were alone, whatever the estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.by_environment import rows_by_environment
from rllib_ragen.credit.filters import filter_groups, group_metrics
from rllib_ragen.credit.registry import estimator_names, make_estimator
from rllib_ragen.types import TokenRow, Trajectory
from tests.credit.build import trajectory

SCALES = {"sokoban": 10.0, "frozen_lake": 0.1}
SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {"estimator": name} for name in estimator_names()},
    "batch statistics of rewards": {"estimator": "reinforce++", "reward_norm": "mean_std", "reward_grouping": "batch"},
    "statistics of roles": {"estimator": "rloo", "reward_norm": "asym_clip", "reward_grouping": "inductive"},
    "weights by spread": {"estimator": "grpo", "group_weighting": "spread", "loss_scaling": "sqrt"},
}


def mixed(seed: int = 0) -> list[Trajectory]:
    """Groups of two environments in turn, with rewards a hundred times apart."""
    rng = np.random.default_rng(seed)
    found = []
    for group in range(8):
        env = list(SCALES)[group % 2]
        for _ in range(4):
            turns = [(2, int(rng.integers(1, 5)), float(rng.normal() * SCALES[env])) for _ in range(2)]
            found.append(replace(trajectory(str(group), turns), env=env))
    return found


def rows_of(batch: list[Trajectory], settings: dict[str, Any], ratios: dict[str, float]) -> list[TokenRow]:
    section = CreditSection.model_validate(settings)
    estimator = make_estimator(section)
    values = [np.sin(np.arange(one.num_tokens, dtype=np.float32)) for one in batch] if estimator.needs_values else None
    return rows_by_environment(batch, batch, values, estimator, section, ratios)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_environment_is_credited_as_if_it_were_alone(name: str) -> None:
    batch, ratios = mixed(), {"sokoban": 0.5, "frozen_lake": 1.0}
    together = rows_of(batch, SETTINGS[name], ratios)
    assert len(together) == len(batch)
    for env in SCALES:
        mine = [index for index, one in enumerate(batch) if one.env == env]
        alone = rows_of([replace(batch[index], env="") for index in mine], SETTINGS[name], {"": ratios[env]})
        for index, row in zip(mine, alone, strict=True):
            np.testing.assert_array_equal(together[index].advantages, row.advantages)
            np.testing.assert_array_equal(together[index].returns, row.returns)
            assert together[index].weight == row.weight
            np.testing.assert_array_equal(together[index].token_ids, batch[index].token_ids())


@pytest.mark.parametrize("name", ["reinforce++", "gae", "rloo"])
def test_without_that_the_smaller_scale_would_drown(name: str) -> None:
    batch = mixed()
    as_one = rows_of([replace(one, env="") for one in batch], {"estimator": name}, {})
    apart = rows_of(batch, {"estimator": name}, {})
    small = [index for index, one in enumerate(batch) if one.env == "frozen_lake"]
    drowned, own = (np.mean([np.abs(rows[index].advantages).max() for index in small]) for rows in (as_one, apart))
    assert own > 5 * drowned


def test_role_baselines_of_environments_are_their_own() -> None:
    estimator = make_estimator(CreditSection(estimator="rae", role_decay=0.5))
    estimator([replace(trajectory("0", [(2, 3, 1.0)]), env=env) for env in ("a", "b", "")])
    assert set(estimator.state()) == {
        "a/default_policy/default_agent", "b/default_policy/default_agent", "default_policy/default_agent",
    }  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [
        {"filter": "top_p", "filter_value": 0.5},
        {"filter": "min_p", "filter_value": 0.9},
        {"filter": "top_k", "filter_value": 0.5},
        {"filter": "top_k_abs", "filter_value": 1},
    ],
)
def test_each_environments_groups_are_filtered_by_themselves(settings: dict[str, Any]) -> None:
    batch, section = mixed(), CreditSection.model_validate(settings)
    result = filter_groups(batch, section)
    assert {one.env for one in result.kept} == set(SCALES), "the smaller scale has its best groups, too"
    for env in SCALES:
        own = [one for one in batch if one.env == env]
        alone = filter_groups(own, section)
        assert [one for one in result.kept if one.env == env] == alone.kept
        assert result.kept_ratios[env] == alone.metrics["kept_ratio"]
        kept = {one.group_id for one in result.kept}
        assert group_metrics(own, kept) == alone.metrics
    assert result.metrics["kept_groups"] == len({one.group_id for one in result.kept})
    assert result.metrics["num_groups"] == 8


def test_rewards_are_normalised_and_weights_are_one_by_hand() -> None:
    """Returns 1 and 3: mean 2, std √2. A reply of no token has no row, and an environment without a ratio has 1."""
    batch = [trajectory("a", [(2, 1, 1.0)]), trajectory("a", [(2, 1, 3.0)]), trajectory("b", [(2, 0, 2.0)])]
    section = {"estimator": "dr_grpo", "normalize": "none", "loss_scaling": "linear"}
    settings = {**section, "reward_norm": "mean_std", "reward_grouping": "group"}
    rows = rows_of(batch, settings, {})
    assert [row.advantages.tolist() for row in rows] == [
        pytest.approx([0, 0, -(0.5**0.5)], abs=1e-5),
        pytest.approx([0, 0, 0.5**0.5], abs=1e-5),
    ]
    assert [row.weight for row in rows] == [1.0, 1.0]


def test_kept_ratios_are_each_environments_share_of_its_groups() -> None:
    """Of sokoban's two groups one differs, of frozen_lake's three all do."""
    returns = {"sokoban": ["01", "11"], "frozen_lake": ["02", "03", "04"]}
    batch = [
        replace(trajectory(f"{env}{number}", [(2, 1, float(value))]), env=env)
        for env, groups in returns.items()
        for number, group in enumerate(groups)
        for value in group
    ]
    result = filter_groups(batch, CreditSection(filter="top_p", filter_value=1.0))
    assert result.kept_ratios == {"sokoban": 0.5, "frozen_lake": 1.0}
    assert {one.group_id for one in result.kept} == {"sokoban0", "frozen_lake0", "frozen_lake1", "frozen_lake2"}
    one_left = filter_groups(batch, CreditSection(filter="top_k_abs", filter_value=1))
    assert {one.group_id for one in one_left.kept} == {"sokoban0", "frozen_lake2"}


@pytest.mark.parametrize(("groups", "alike"), [("aabb", 2.0), ("aab", 2.0), ("abc", float("nan")), ("", 0.0)])
def test_groups_of_one_are_not_told_as_alike_where_none_can_be_compared(groups: str, alike: float) -> None:
    found = group_metrics([trajectory(name, [(2, 1, 1.0)]) for name in groups], [])["zero_spread_groups"]
    assert found == alike or (np.isnan(found) and np.isnan(alike))
