"""The KL cost in the reward, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rllib_ragen.credit.kl_estimate import KLEstimator
from rllib_ragen.credit.kl_reward import with_kl_cost
from tests.credit.build import trajectory, values_at_trained

# Sampled tokens 2, 3 and 5, log-probs −0.3, −0.4, −0.6; the reference says −0.5, −0.1, −0.6: d = 0.2, −0.3, 0.
ITEM = trajectory("a", [(2, 2, 0.5), (1, 1, 1.0)])
REFERENCE = values_at_trained(ITEM, [-0.5, -0.1, -0.6])


@pytest.mark.parametrize(
    ("estimator", "first"),
    [
        ("k1", 0.2 - 0.3),
        ("k2", 0.5 * 0.04 + 0.5 * 0.09),
        ("k3", math.exp(-0.2) - 1 + 0.2 + math.exp(0.3) - 1 - 0.3),
    ],
)
def test_a_turn_pays_for_its_own_sampled_tokens(estimator: KLEstimator, first: float) -> None:
    (after,), mean = with_kl_cost([ITEM], [REFERENCE], 2.0, estimator)
    assert [turn.reward for turn in after.turns] == pytest.approx([0.5 - 2 * first, 1.0], abs=1e-6)
    assert mean == pytest.approx(first / 3, abs=1e-6)
    assert [turn.reward for turn in ITEM.turns] == [0.5, 1.0]


def test_empty_turns_and_empty_batches_pass() -> None:
    batch = [trajectory("a", [(2, 0, 0.5), (1, 1, 0.0)]), trajectory("a", [])]
    after, _ = with_kl_cost(batch, [np.zeros(t.num_tokens, np.float32) for t in batch], 1.0, "k1")
    assert [turn.reward for turn in after[0].turns] == pytest.approx([0.5, 0.4])  # log-prob −0.4
    assert math.isnan(with_kl_cost([], [], 1.0, "k1")[1])
