"""Every estimator, reward normalisation and loss factor in the real loop, on a small model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.registry import estimator_names, make_estimator
from rllib_ragen.starpo.algorithm import StarPO
from tests.starpo.build import digits_config, largest_difference, weights

pytestmark = pytest.mark.usefixtures("local_ray")


def build(model: Path, **settings: Any) -> StarPO:
    algo: StarPO = digits_config(model, entropy_coeff=0.0, **settings).build_algo()
    return algo


@pytest.mark.parametrize("name", estimator_names())
def test_every_estimator_moves_the_policy_and_a_critic_where_it_has_one(model: Path, name: str) -> None:
    algo = build(model, estimator=name)
    before = weights(algo.learner_group._learner)
    result = algo.train()["starpo"]
    after = weights(algo.learner_group._learner)
    assert result["policy_version"] == 1 and math.isfinite(result["policy_loss"])
    head = {key for key in before if "value_head" in key}
    assert bool(head) == make_estimator(CreditSection(estimator=name)).needs_values
    for keys in (head, before.keys() - head):
        if keys:
            assert largest_difference({k: before[k] for k in keys}, {k: after[k] for k in keys}) > 0
    assert all(turn.state.startswith("Number ") for t in algo.last_trajectories() for turn in t.turns)
    algo.stop()


def test_a_factor_on_the_loss_scales_the_gradient(model: Path) -> None:
    """Dropping groups by `top_k` scales nothing; `linear` multiplies by the kept share; rewards are sampled alike."""
    results = []
    for scaling in ("none", "linear"):
        algo = build(model, filter="top_k", filter_value=0.5, loss_scaling=scaling)
        results.append(algo.train()["starpo"])
        algo.stop()
    assert results[0]["kept_ratio"] == results[1]["kept_ratio"] == 0.5
    assert results[1]["grad_norm"] == pytest.approx(0.5 * results[0]["grad_norm"], rel=1e-5)


def test_normalised_rewards_reach_the_estimator_and_no_metric(model: Path) -> None:
    """`dr_grpo` on rewards standardised in the group is `grpo`."""
    results = []
    for settings in ({"estimator": "grpo"}, {"estimator": "dr_grpo", "reward_norm": "mean_std"}):
        algo = build(model, normalize="none", **settings)
        results.append(algo.train()["starpo"])
        algo.stop()
    assert results[0]["grad_norm"] == pytest.approx(results[1]["grad_norm"], rel=1e-4)
    assert results[0]["return_mean"] == results[1]["return_mean"] > 0
    assert results[0]["group_reward_std"] == results[1]["group_reward_std"]


def test_overlong_replies_are_paid_less_in_the_update_and_in_no_metric(model: Path) -> None:
    """With the last token of the limit at a price of 1, what a reply that is cut off is worth falls by 1 a turn."""
    results, advantages = [], []
    for cache in (None, 1):
        algo = build(model, estimator="dr_grpo", normalize="none", overlong_cache=cache)
        results.append(algo.train()["starpo"])
        cut = [sum(len(turn.reply_ids) == 8 for turn in t.turns) for t in algo.last_trajectories()]
        found = [a for a in algo.last_advantages() if a is not None]
        advantages.append([float(a[-1]) for a in found])
        algo.stop()
    groups = [range(start, start + 4) for start in range(0, len(cut), 4)]
    mean = [sum(cut[i] for i in group) / 4 for group in groups for _ in group]
    expected = [a - (own - average) for a, own, average in zip(advantages[0], cut, mean, strict=True)]
    assert len(set(cut)) > 1
    assert advantages[1] == pytest.approx(expected, abs=1e-6)
    assert results[0]["return_mean"] == results[1]["return_mean"]
