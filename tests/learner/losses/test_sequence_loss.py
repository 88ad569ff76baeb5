"""GSPO's ratio against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.learner.losses.policy import policy_loss
from rllib_ragen.learner.losses.registry import PolicyTokens
from rllib_ragen.learner.losses.sequence import sequence_log_ratio, sequence_loss


def test_the_ratio_is_the_geometric_mean_of_its_trajectorys_ratios() -> None:
    log_ratio = torch.tensor([0.1, 0.3, -0.6, 0.2], dtype=torch.float64)
    found = sequence_log_ratio(log_ratio, torch.tensor([0, 0, 1, 0]))
    assert found.tolist() == pytest.approx([0.2, 0.2, -0.6, 0.2])


def test_the_gradient_is_that_of_the_length_normalised_ratio() -> None:
    """Loss −A s with s = exp(mean log ρ): d/d log π_t = −A s/|y|, the same for every token of the trajectory."""
    logprobs = torch.tensor([-1.0, -2.0, -0.5, -3.0], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([-1.1, -2.3, -0.1, -3.0], dtype=torch.float64)
    rows = torch.tensor([0, 0, 0, 1])
    advantage = torch.tensor([2.0, 2.0, 2.0, -1.0], dtype=torch.float64)
    loss, clipped = policy_loss(
        sequence_log_ratio(logprobs - old, rows), advantage, clip_low=0.2, clip_high=0.28, clip_dual=3.0
    )
    (gradient,) = torch.autograd.grad((loss / torch.tensor([3, 3, 3, 1])).sum(), logprobs)
    first = math.exp((0.1 + 0.3 - 0.4) / 3)
    assert loss.tolist() == pytest.approx([-2 * first] * 3 + [1.0])
    assert gradient.tolist() == pytest.approx([-2 * first / 3] * 3 + [1.0])
    assert not clipped.any()


def test_with_advantages_per_token_each_tokens_gradient_is_its_own() -> None:
    """GSPO-token: d/d log π_t = −A_t s/|y|, where a mean with gradient would spread the mean advantage."""
    log_ratio = torch.tensor([0.3, -0.1], dtype=torch.float64, requires_grad=True)
    ratio = sequence_log_ratio(log_ratio, torch.tensor([0, 0])).exp()
    (gradient,) = torch.autograd.grad((-torch.tensor([2.0, -1.0], dtype=torch.float64) * ratio).sum() / 2, log_ratio)
    assert gradient.tolist() == pytest.approx([-2 * math.exp(0.1) / 2, math.exp(0.1) / 2])


def test_a_trajectory_is_clipped_as_a_whole() -> None:
    """Its second token alone would not be: 1.0 lies within the range, the mean of 2.0 and 1.0 does not."""
    logprobs = torch.tensor([math.log(4.0), 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    loss, clipped = policy_loss(
        sequence_log_ratio(logprobs, torch.tensor([0, 0, 1])),
        torch.ones(3, dtype=torch.float64),
        clip_low=3e-4,
        clip_high=4e-4,
        clip_dual=None,
    )
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert loss.tolist() == pytest.approx([-1.0004, -1.0004, -1.0])
    assert clipped.tolist() == [True, True, False]
    assert gradient.tolist() == pytest.approx([0.0, 0.0, -1.0])


def test_no_tokens_are_no_error() -> None:
    empty = torch.zeros(0)
    assert sequence_log_ratio(empty, torch.zeros(0, dtype=torch.int64)).shape == (0,)


def test_the_loss_is_the_clipped_surrogate_of_each_trajectorys_ratio() -> None:
    """Ratios 9 and 1 make 3, held at 1.5; ¼ is held at ¾; and 1.25 is within the clips."""
    section = LearnerSection(clip_low=0.25, clip_high=0.5)
    log_ratio = torch.tensor([9.0, 1.0, 0.25, 1.25]).log()
    tokens = PolicyTokens(log_ratio, torch.tensor([1.0, 2.0, -1.0, -4.0]), torch.tensor([0, 0, 1, 2]), section)
    loss, clipped = sequence_loss(tokens)
    assert loss.tolist() == pytest.approx([-1.5, -3.0, 0.75, 5.0])
    assert clipped.tolist() == [True, True, True, False]
