"""REINFORCE++ with and without a group baseline, against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.types import FloatArray, StopReason, Trajectory
from tests.credit.build import group_of, trajectory

BOTH = ["reinforce++", "reinforce++_baseline"]


def advantages(name: str, batch: Sequence[Trajectory], **section: object) -> list[FloatArray]:
    """[trained tokens] of each trajectory; asserts that everything else is 0."""
    credits = make_estimator(CreditSection.model_validate({"estimator": name, **section}))(batch)
    for item, credit in zip(batch, credits, strict=True):
        assert not credit.advantages[item.turn_index() < 0].any() and not credit.returns.any()
    return [c.advantages[t.turn_index() >= 0] for t, c in zip(batch, credits, strict=True)]


def test_discounted_returns_pass_through_observations_and_are_whitened_over_the_batch() -> None:
    # γ ½, rewards ½ and 1 at the ends of turns of 2 and 1 tokens: G = ½, 1, 1; the all-zero episode: 0.
    # mean 0.625, var (ddof 1) 0.6875/3 = 0.2291667, std 0.4787136
    batch = [trajectory("a", [(2, 2, 0.5), (3, 1, 1.0)]), trajectory("b", [(1, 1, 0.0)])]
    paid, all_zero = advantages("reinforce++", batch, gamma=0.5)
    assert paid == pytest.approx([-0.2611165, 0.7833494, 0.7833494], abs=1e-6)
    assert all_zero == pytest.approx([-1.3055824], abs=1e-6)


def test_zero_reward_turns_carry_what_comes_after_them() -> None:
    batch = [trajectory("a", [(1, 2, 0.0), (9, 2, 0.0), (9, 1, 1.0)]), trajectory("a", [(1, 5, 0.0)])]
    paid, unpaid = advantages("reinforce++", batch)
    assert len(set(paid.tolist())) == 1 and paid[0] == pytest.approx(-unpaid[0])


def test_with_turn_rewards_off_early_turns_are_credited_with_everything() -> None:
    batch = [trajectory("a", [(1, 1, 1.0), (1, 1, -1.0)]), trajectory("a", [(1, 2, 0.5)])]
    on, off = (advantages("reinforce++", batch, turn_rewards=flag)[0] for flag in (True, False))
    assert on[0] > on[1] and off[0] == off[1]


def test_group_means_are_taken_off_before_whitening() -> None:
    # R = 1, −0.2, 0 on 7, 12, 3 tokens; centred 0.7333, −0.4667, −0.2667; over the 22 tokens: mean −0.0575758,
    # var (ddof 1) 0.3103896, std 0.5571262
    batch = [
        trajectory("a", [(4, 2, 0.0), (3, 5, 1.0)]),
        trajectory("a", [(4, 1, -0.1), (2, 2, -0.1), (2, 9, 0.0)]),
        trajectory("a", [(4, 3, 0.0)]),
    ]
    for found, expected in zip(
        advantages("reinforce++_baseline", batch), (1.4196228, -0.7342877, -0.3753026), strict=True
    ):
        assert found == pytest.approx([expected] * len(found), abs=2e-6)


def test_every_group_has_a_mean_of_its_own() -> None:
    """R − mean: ±½ and ±1; mean 0, var (ddof 1) 2.5/3, std 0.9128709."""
    batch = [trajectory(group, [(1, 1, r)]) for group, r in (("a", 1.0), ("b", 5.0), ("a", 0.0), ("b", 3.0))]
    found = np.concatenate(advantages("reinforce++_baseline", batch))
    assert found == pytest.approx([0.5477226, 1.0954451, -0.5477226, -1.0954451], abs=1e-6)


def test_a_group_of_one_is_left_out_of_the_whitening() -> None:
    # R − mean: ½, −½ in the group; mean 0, var ½
    batch = [trajectory("a", [(1, 1, 1.0)]), trajectory("a", [(1, 1, 0.0)]), trajectory("b", [(1, 1, 2.0)])]
    found = np.concatenate(advantages("reinforce++_baseline", batch))
    assert found == pytest.approx([0.5**0.5, -(0.5**0.5), 0.0], abs=1e-6)


@pytest.mark.parametrize("name", BOTH)
def test_all_zero_batches_have_no_advantage_and_empty_episodes_pass(name: str) -> None:
    assert not np.concatenate(advantages(name, [*group_of("a", [0.0, 0.0]), trajectory("a", [])])).any()
    assert advantages(name, []) == []


@pytest.mark.parametrize("name", BOTH)
def test_a_failed_member_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="failed trajectory"):
        advantages(name, [*group_of("a", [1.0]), trajectory("a", [(1, 1, 0.0)], StopReason.ENGINE_ERROR)])
