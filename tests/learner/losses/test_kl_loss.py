"""The estimators of the divergence from a reference, against numbers worked out by hand and against the truth."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch

from rllib_ragen.credit.kl_estimate import KLEstimator
from rllib_ragen.learner.losses.kl import kl_loss

LN2 = math.log(2)


@pytest.mark.parametrize(
    ("estimator", "difference", "value", "gradient"),
    [
        ("k1", LN2, LN2, 1.0),
        ("k1", -LN2, -LN2, 1.0),
        ("k2", LN2, 0.5 * LN2**2, LN2),
        ("k2", -LN2, 0.5 * LN2**2, -LN2),
        ("k3", LN2, 0.5 - 1 + LN2, 0.5),  # exp(−d) = ½
        ("k3", -LN2, 2 - 1 - LN2, -1.0),
        ("k3", 0.0, 0.0, 0.0),
    ],
)
def test_hand_computed_cases(estimator: KLEstimator, difference: float, value: float, gradient: float) -> None:
    logprobs = torch.tensor([difference - 1.5], dtype=torch.float64, requires_grad=True)
    loss = kl_loss(logprobs, torch.tensor([-1.5], dtype=torch.float64), estimator)
    (found,) = torch.autograd.grad(loss.sum(), logprobs)
    assert loss.item() == pytest.approx(value) and found.item() == pytest.approx(gradient)


@pytest.mark.parametrize("estimator", get_args(KLEstimator))
@pytest.mark.parametrize("difference", [-1e4, 1e4])
def test_an_absurd_difference_stays_finite(estimator: KLEstimator, difference: float) -> None:
    logprobs = torch.tensor([difference], requires_grad=True)
    loss = kl_loss(logprobs, torch.zeros(1), estimator)
    (gradient,) = torch.autograd.grad(loss.sum(), logprobs)
    assert torch.isfinite(loss).all() and torch.isfinite(gradient).all()


def expectations() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(logits, log π, log π_ref) over a small vocabulary."""
    torch.manual_seed(0)
    logits = torch.randn(7, dtype=torch.float64, requires_grad=True)
    return logits, logits.log_softmax(-1), torch.randn(7, dtype=torch.float64).log_softmax(-1)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_k1_and_k3_are_unbiased(estimator: KLEstimator) -> None:
    _, logp, reference = expectations()
    truth = (logp.exp() * (logp - reference)).sum()
    assert (logp.exp() * kl_loss(logp, reference, estimator)).sum().item() == pytest.approx(truth.item())


def test_only_k2s_gradient_is_on_average_that_of_the_divergence_and_k1s_is_nothing() -> None:
    def mean_gradient(estimator: KLEstimator) -> torch.Tensor:
        logits, logp, reference = expectations()
        return torch.autograd.grad((logp.exp().detach() * kl_loss(logp, reference, estimator)).sum(), logits)[0]

    logits, logp, reference = expectations()
    truth = torch.autograd.grad((logp.exp() * (logp - reference)).sum(), logits)[0]
    torch.testing.assert_close(mean_gradient("k2"), truth)
    torch.testing.assert_close(mean_gradient("k1"), torch.zeros_like(truth), atol=1e-12, rtol=0)
    assert not torch.allclose(mean_gradient("k3"), truth, rtol=1e-2)


def test_an_unknown_estimator_names_the_allowed_ones() -> None:
    with pytest.raises(ValueError, match=r"learner\.kl_estimator.*'k4'.*k1, k2, k3"):
        kl_loss(torch.zeros(1), torch.zeros(1), "k4")  # type: ignore[arg-type]
