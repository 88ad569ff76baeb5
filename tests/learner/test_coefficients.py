"""Settings of the loss reach an update: the constant length, and the critic's coefficient."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_ragen.types import TokenRow
from tests.starpo.build import digits_config, largest_difference, make_learner, random_rows, update, weights

NO_OTHER_TERM: dict[str, Any] = {"entropy_coeff": 0.0, "weight_decay": 0.0}


def loss(model: Path, aggregation: str, norm_tokens: int | None = None) -> float:
    """The policy loss of one step on the same rows, with contexts of 256 tokens."""
    config = digits_config(model, aggregation=aggregation, norm_tokens=norm_tokens, **NO_OTHER_TERM)
    return update(make_learner(config), random_rows(4))["policy_loss"]


def test_the_constant_length_is_the_contexts_unless_another_one_is_set(model: Path) -> None:
    total = loss(model, "seq-mean-token-sum")
    assert abs(total) > 1e-3
    for norm_tokens, divisor in ((None, 256), (256, 256), (64, 64), (1, 1)):
        found = loss(model, "seq-mean-token-sum-norm", norm_tokens)
        assert found == pytest.approx(total / divisor, rel=1e-6), norm_tokens


def without_advantages() -> list[TokenRow]:
    return [replace(row, advantages=np.zeros_like(row.advantages)) for row in random_rows(4)]


@pytest.mark.parametrize(("value_coeff", "moves"), [(0.0, False), (0.5, True)])
def test_the_critic_learns_by_its_coefficient(model: Path, value_coeff: float, moves: bool) -> None:
    learner = make_learner(digits_config(model, estimator="gae", value_coeff=value_coeff, **NO_OTHER_TERM))
    before = weights(learner)
    found = update(learner, without_advantages())
    assert (largest_difference(before, weights(learner)) > 0) is moves
    assert (found["value_loss"] > 0) is moves, "rows without any gradient are not computed"


def test_the_critics_gradient_is_in_proportion_to_its_coefficient(model: Path) -> None:
    norms = []
    for value_coeff in (0.25, 1.0):
        config = digits_config(model, estimator="gae", value_coeff=value_coeff, grad_clip=1e9, **NO_OTHER_TERM)
        norms.append(update(make_learner(config), without_advantages())["critic_grad_norm"])
    assert norms[1] == pytest.approx(4 * norms[0], rel=1e-4)
