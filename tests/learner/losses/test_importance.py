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


def test_an_impossible_token_of_the_sampler_stays_finite() -> None:
    assert torch.isfinite(importance_weights(torch.zeros(1), torch.tensor([-1e5]), 1e9)).all()
