"""Truncated importance sampling against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from rllib_ragen.learner.losses.importance import importance_weights


def test_hand_computed_weights_with_cap_two_and_no_gradient() -> None:
    old = torch.tensor([-1.0, -1.0, -1.0, 50.0], requires_grad=True)
    behaviour = torch.tensor([-1.0, -1.0 - math.log(1.5), -1.0 + math.log(4), -50.0])
    weights = importance_weights(old, behaviour, 2.0)
    assert weights.tolist() == pytest.approx([1.0, 1.5, 0.25, 2.0])
    assert not weights.requires_grad


@pytest.mark.parametrize(("behaviour", "weight"), [(-1e5, math.exp(20)), (1e5, math.exp(-20))])
def test_an_impossible_token_of_the_sampler_counts_as_one_of_twenty_nats(behaviour: float, weight: float) -> None:
    found = importance_weights(torch.zeros(1), torch.tensor([behaviour]), 1e9)
    assert found.item() == pytest.approx(weight)
