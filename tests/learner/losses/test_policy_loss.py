"""The clipped surrogate against numbers worked out by hand, and where its gradient lives."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.learner.losses.policy import log_likelihood_loss, policy_loss, token_loss
from rllib_ragen.learner.losses.registry import PolicyTokens

CASES = [
    # ratio, advantage, loss, clipped (clip 0.2 / 0.28, dual 3)
    (1.0, 1.0, -1.0, False),
    (1.0, -2.0, 2.0, False),
    (1.1, 1.0, -1.1, False),
    (1.5, 1.0, -1.28, True),  # a good token may not rise further
    (0.5, 1.0, -0.5, False),  # but may always be brought back
    (1.25, 2.0, -2.5, False),  # between 1.2 and 1.28: the upper bound is the wider one
    (0.5, -1.0, 0.8, True),  # a bad token may not fall further
    (0.79, -1.0, 0.8, True),
    (1.5, -1.0, 1.5, False),
    (5.0, -1.0, 3.0, True),  # dual clip
    (5.0, 0.0, 0.0, False),
    (1.0, 0.5, -0.5, False),  # the dual clip is for bad tokens only, however small the advantage
]


@pytest.mark.parametrize(("ratio", "advantage", "loss", "clipped"), CASES)
def test_hand_computed_cases(ratio: float, advantage: float, loss: float, clipped: bool) -> None:
    new = torch.tensor([math.log(ratio) - 1.5], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([-1.5], dtype=torch.float64)
    value, bound = policy_loss(
        new - old, torch.tensor([advantage], dtype=torch.float64), clip_low=0.2, clip_high=0.28, clip_dual=3.0
    )
    assert value.item() == pytest.approx(loss) and bool(bound.item()) is clipped
    (gradient,) = torch.autograd.grad(value.sum(), new)
    # d(−ρA)/d log π = −ρA where no clip binds
    assert gradient.item() == pytest.approx(0.0 if clipped else -ratio * advantage)


def test_without_a_dual_clip_a_bad_token_of_a_huge_ratio_has_no_cap() -> None:
    new, old, advantage = (torch.tensor([x], dtype=torch.float64) for x in (math.log(5.0), 0.0, -1.0))
    value, bound = policy_loss(new - old, advantage, clip_low=0.2, clip_high=0.28, clip_dual=None)
    assert value.item() == pytest.approx(5.0) and not bound.item()


def test_at_the_bound_of_the_dual_clip_nothing_is_clipped_yet() -> None:
    _, bound = policy_loss(torch.zeros(1), -torch.ones(1), clip_low=0.2, clip_high=0.28, clip_dual=1.0)
    assert not bound.item()


@pytest.mark.parametrize(("log_ratio", "loss"), [(1e4, math.exp(20)), (-1e4, 0.8)])
def test_a_log_ratio_counts_up_to_twenty_nats(log_ratio: float, loss: float) -> None:
    value, _ = policy_loss(torch.tensor([log_ratio]), -torch.ones(1), clip_low=0.2, clip_high=0.28, clip_dual=None)
    assert value.item() == pytest.approx(loss)


@pytest.mark.parametrize("log_ratio", [-1e4, 1e4])
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
def test_an_absurd_log_ratio_stays_finite(log_ratio: float, advantage: float) -> None:
    new = torch.tensor([log_ratio], requires_grad=True)
    value, _ = policy_loss(new, torch.tensor([advantage]), clip_low=0.2, clip_high=0.28, clip_dual=None)
    (gradient,) = torch.autograd.grad(value.sum(), new)
    assert torch.isfinite(value).all() and torch.isfinite(gradient).all()


def test_non_finite_log_probs_are_not_hidden() -> None:
    """Detecting them is the learner's business; a loss that swallows NaN would keep it from that."""
    value, _ = policy_loss(torch.tensor([math.nan]), torch.ones(1), clip_low=0.2, clip_high=0.28, clip_dual=3.0)
    assert torch.isnan(value).all()


@settings(max_examples=100, deadline=None)
@given(log_ratio=st.floats(-3, 3), advantage=st.floats(-4, 4), dual=st.sampled_from([None, 3.0]))
def test_clipped_is_true_exactly_where_the_gradient_vanishes(
    log_ratio: float, advantage: float, dual: float | None
) -> None:
    new = torch.tensor([log_ratio], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([advantage], dtype=torch.float64)
    value, clipped = policy_loss(new, weight, clip_low=0.2, clip_high=0.28, clip_dual=dual)
    (gradient,) = torch.autograd.grad(value.sum(), new)
    if abs(advantage) > 1e-100:  # smaller ones underflow
        assert bool(clipped.item()) == (gradient.item() == 0)


def test_N2_tokens_of_a_group_without_spread_have_no_gradient() -> None:
    new = torch.randn(8, dtype=torch.float64, requires_grad=True)
    value, clipped = policy_loss(new, torch.zeros(8, dtype=torch.float64), clip_low=0.2, clip_high=0.28, clip_dual=3.0)
    (gradient,) = torch.autograd.grad(value.sum(), new)
    assert not gradient.any() and not clipped.any()


@pytest.mark.parametrize(
    ("clips", "losses", "clipped"),
    [
        # −min(ρ A, clip(ρ) A) of ρ = 4, ¼ and 8 with A = 1, −1 and −1
        ({"clip_low": 0.5, "clip_high": 2.0, "clip_dual": 5.0}, [-3.0, 0.5, 5.0], [True, True, True]),
        ({"clip_low": 0.25, "clip_high": 9.0, "clip_dual": 9.0}, [-4.0, 0.75, 8.0], [False, True, False]),
        ({"clip_low": 0.25, "clip_high": 0.5, "clip_dual": None}, [-1.5, 0.75, 8.0], [True, True, False]),
    ],
)
def test_a_tokens_loss_has_the_clips_of_the_config(
    clips: dict[str, float | None], losses: list[float], clipped: list[bool]
) -> None:
    ratio, advantages = torch.tensor([4.0, 0.25, 8.0]), torch.tensor([1.0, -1.0, -1.0])
    section = LearnerSection.model_validate(clips)
    loss, held = token_loss(PolicyTokens(ratio.log(), advantages, torch.zeros(3, dtype=torch.int64), section))
    assert loss.tolist() == pytest.approx(losses) and held.tolist() == clipped


def test_the_likelihood_loss_has_the_gradient_of_the_log_likelihood() -> None:
    """−A · log ratio: −1 · 0, −0.5 · −8, 0 · 8.9; its gradient is −A wherever the policy stands."""
    logprobs = torch.tensor([-1.0, -5.0, -0.1], requires_grad=True)
    weight = torch.tensor([1.0, 0.5, 0.0])
    tokens = PolicyTokens(logprobs - torch.tensor([-1.0, 3.0, -9.0]), weight, torch.zeros(3).long(), LearnerSection())
    loss, clipped = log_likelihood_loss(tokens)
    assert loss.tolist() == [0.0, 4.0, 0.0]
    loss.sum().backward()
    assert logprobs.grad is not None and torch.equal(logprobs.grad, -weight)
    assert clipped.dtype == torch.bool and clipped.shape == (3,) and not clipped.any()
