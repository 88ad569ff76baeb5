"""Losses and their aggregation agree with verl's core_algos to 1e-6 (`make oracle`)."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch

from rllib_ragen.credit.kl_estimate import KLEstimator
from rllib_ragen.learner.losses.aggregate import Aggregation, row_scales
from rllib_ragen.learner.losses.kl import kl_loss
from rllib_ragen.learner.losses.policy import policy_loss
from rllib_ragen.learner.losses.sequence import sequence_log_ratio
from rllib_ragen.learner.losses.value import value_loss
from tests.oracle import verl_core_algos

pytestmark = pytest.mark.oracle

ROWS, LENGTH = 7, 9
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)


@pytest.fixture
def verl() -> Any:
    return verl_core_algos()


def random_mask() -> torch.Tensor:
    """[ROWS, LENGTH] float64 0/1 with one row that trains nothing."""
    mask = (torch.rand(ROWS, LENGTH) < 0.6).double()
    mask[2] = 0
    return mask


def aggregate(loss: torch.Tensor, mask: torch.Tensor, aggregation: Aggregation) -> torch.Tensor:
    counts = [int(n) for n in mask.sum(-1)]
    # verl's constant is the padded length unless another one is given.
    scales = row_scales(
        counts, aggregation, total_tokens=sum(counts), total_rows=sum(n > 0 for n in counts), norm_tokens=LENGTH
    )
    return (torch.tensor(scales, dtype=torch.float64) * (loss * mask).sum(-1)).sum()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_aggregation_agrees_with_verl(verl: Any, aggregation: Aggregation, seed: int) -> None:
    torch.manual_seed(seed)
    loss, mask = torch.randn(ROWS, LENGTH, dtype=torch.float64), random_mask()
    theirs = verl.agg_loss(loss, mask, aggregation)
    torch.testing.assert_close(aggregate(loss, mask, aggregation), theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_policy_loss_and_its_gradient_agree_with_verl(verl: Any, aggregation: Aggregation, seed: int) -> None:
    torch.manual_seed(seed)
    config = verl.ActorConfig(
        strategy="fsdp", rollout_n=1, clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=3.0,
        ppo_micro_batch_size_per_gpu=1,
    )  # fmt: skip
    old, advantages, mask = torch.randn(ROWS, LENGTH).double(), torch.randn(ROWS, LENGTH).double(), random_mask()
    new = (old + torch.randn_like(old)).requires_grad_()
    theirs, metrics = verl.compute_policy_loss_vanilla(old, new, advantages, mask, aggregation, config)
    per_token, clipped = policy_loss(new - old, advantages, clip_low=0.2, clip_high=0.28, clip_dual=3.0)
    ours = aggregate(per_token, mask, aggregation)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        torch.autograd.grad(ours, new)[0], torch.autograd.grad(theirs, new)[0], rtol=1e-6, atol=1e-6
    )
    # verl counts the two clips apart; they bind on different tokens, so that they add up to ours.
    both = metrics["actor/pg_clipfrac"] + metrics["actor/pg_clipfrac_lower"]
    assert 0 < both == pytest.approx(((clipped * mask).sum() / mask.sum()).item(), abs=1e-6)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_sequence_loss_and_its_gradient_agree_with_verl(verl: Any, aggregation: Aggregation) -> None:
    torch.manual_seed(0)
    config = verl.ActorConfig(
        strategy="fsdp", rollout_n=1, clip_ratio=0.2, clip_ratio_low=0.02, clip_ratio_high=0.03,
        ppo_micro_batch_size_per_gpu=1,
    )  # fmt: skip
    mask = random_mask()
    old, advantages = torch.randn(ROWS, LENGTH).double(), torch.randn(ROWS, 1).double().expand(ROWS, LENGTH)
    new = (old + 0.3 * torch.randn_like(old)).requires_grad_()
    theirs, _ = verl.compute_policy_loss_gspo(old, new, advantages, mask, aggregation, config)
    at = mask > 0
    log_ratio = sequence_log_ratio((new - old)[at], torch.arange(ROWS)[:, None].expand(ROWS, LENGTH)[at])
    per_token, clipped = policy_loss(log_ratio, advantages[at], clip_low=0.02, clip_high=0.03, clip_dual=None)
    assert clipped.any() and not clipped.all()
    ours = aggregate(torch.zeros_like(mask).masked_scatter(at, per_token), mask, aggregation)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        torch.autograd.grad(ours, new)[0], torch.autograd.grad(theirs, new)[0], rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("estimator", get_args(KLEstimator))
def test_kl_estimators_agree_with_verl(verl: Any, estimator: KLEstimator) -> None:
    torch.manual_seed(0)
    # verl holds k3 below 10, ours holds the difference below 20: differences beyond 2 are left out.
    new, reference = 2 * torch.rand(2, ROWS, LENGTH, dtype=torch.float64)
    theirs = verl.kl_penalty_forward(new, reference, estimator)
    torch.testing.assert_close(kl_loss(new, reference, estimator), theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_value_loss_agrees_with_verl(verl: Any, aggregation: Aggregation) -> None:
    torch.manual_seed(0)
    values, old, returns = (torch.randn(ROWS, LENGTH, dtype=torch.float64) for _ in range(3))
    mask = random_mask()
    theirs, _ = verl.compute_value_loss(values, returns, old, mask, 0.5, aggregation)
    ours = aggregate(value_loss(values, old, returns, 0.5), mask, aggregation)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
