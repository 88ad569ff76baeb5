"""The objective of one micro-batch, term by term, against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.learner.microbatches import MicroBatch
from rllib_ragen.learner.objective import SUMS, Objective, objective
from rllib_ragen.models.llm_module import TokenOutputs

LN2, LN3 = math.log(2), math.log(3)
POLICY, ENTROPY, KL, CRITIC = -1.58, 0.875, 0.25 * LN2, 0.125
"""Each term, scaled and summed, without its coefficient."""


def tensor(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def batch(**changes: Any) -> MicroBatch:
    """Three tokens, the last two of one trajectory, of ratios 1, 1.5 and ½ to the sampler's."""
    own = MicroBatch(
        input_ids=torch.zeros(0),
        trained=torch.zeros(0),
        rows=torch.tensor([0, 1, 1]),
        behaviour_logprobs=tensor(-1.0, -2.0 - math.log(1.5), -0.5 + LN2),
        advantages=tensor(1.0, 2.0, -1.0),
        returns=tensor(1.0, 1.0, -1.0),
        old_values=tensor(0.5, 0.0, 0.0),
        scale=tensor(0.5, 0.25, 0.25),
        weight=tensor(1.0, 2.0, 1.0),
    )
    return replace(own, **changes)


def outputs(*, critic: bool = False) -> TokenOutputs:
    """Of log-probs −1, −2 and −½."""
    found = TokenOutputs(
        logprobs=tensor(-1.0, -2.0, -0.5).requires_grad_(), entropy=tensor(0.5, 1.0, 1.5).requires_grad_()
    )
    if critic:
        found["values"] = tensor(0.5, 0.8, -0.8).requires_grad_()
    return found


def settings(**changes: Any) -> LearnerSection:
    return LearnerSection(**{"entropy_coeff": 0.0, "clip_low": 0.2, "clip_high": 0.28, "clip_dual": 3.0, **changes})


def numbers(found: Objective) -> dict[str, float]:
    return dict(zip(SUMS, found.sums.tolist(), strict=True))


REFERENCE = tensor(-1.0 - LN2, -2.0 + LN2, -0.5)


def test_the_policy_term_is_scale_times_weight_times_the_clipped_surrogate() -> None:
    """½ · 1 · (−1) + ¼ · 2 · (−1.28 · 2) + ¼ · 1 · 0.8; the second and third tokens are clipped."""
    found = objective(outputs(), batch(), settings())
    assert found.loss.item() == pytest.approx(POLICY)
    expected = {"policy_loss": POLICY, "value_loss": 0.0, "entropy": 3.0, "clipped": 2.0, "tokens": 3.0, "kl": 0.0}
    assert {name: numbers(found)[name] for name in expected} == pytest.approx(expected)


def test_the_gap_is_between_learner_and_sampler_token_by_token() -> None:
    """log π − log π_b is 0, ln 1.5 and −ln 2; k3 of d is exp(d) − 1 − d."""
    found = objective(outputs(), batch(), settings())
    assert numbers(found)["gap"] == pytest.approx(math.log(1.5) + LN2)
    assert numbers(found)["gap_k3"] == pytest.approx((0.5 - math.log(1.5)) + (-0.5 + LN2))
    assert found.largest_gap.item() == pytest.approx(LN2)
    assert not found.sums.requires_grad and not found.largest_gap.requires_grad
    assert found.sums.dtype == torch.float64


def test_the_gaps_estimate_is_never_negative_and_its_sum_is_over_tokens() -> None:
    """log π − log π_b is 0, ln 2 and ln 2: k3 is exp(ln 2) − 1 − ln 2, twice."""
    found = objective(outputs(), batch(behaviour_logprobs=tensor(-1.0, -2.0 - LN2, -0.5 - LN2)), settings())
    assert numbers(found)["gap_k3"] == pytest.approx(2 * (1 - LN2))


def test_entropy_is_a_bonus_with_its_coefficient_and_the_tokens_scale() -> None:
    given = outputs()
    found = objective(given, batch(), settings(entropy_coeff=0.1))
    assert found.loss.item() == pytest.approx(POLICY - 0.1 * ENTROPY)
    (gradient,) = torch.autograd.grad(found.loss, given["entropy"])
    assert gradient.tolist() == pytest.approx([-0.05, -0.025, -0.025])
    assert numbers(found)["entropy"] == 3.0, "reported without scale or coefficient"


def test_without_its_coefficient_the_entropy_is_not_in_the_graph() -> None:
    given = outputs()
    found = objective(given, batch(), settings())
    (gradient,) = torch.autograd.grad(found.loss, given["entropy"], allow_unused=True)
    assert gradient is None


def test_the_kl_term_has_its_coefficient_and_the_tokens_scale() -> None:
    """d = log π − log π_ref is ln 2, −ln 2 and 0: k3 is ln 2 − ½, 1 − ln 2 and 0, its gradient ½, −1 and 0."""
    given = outputs()
    found = objective(given, batch(reference_logprobs=REFERENCE), settings(kl_coeff=0.2, kl_estimator="k3"))
    assert found.loss.item() == pytest.approx(POLICY + 0.2 * KL)
    assert numbers(found)["kl"] == pytest.approx(0.5), "reported without scale or coefficient"
    (gradient,) = torch.autograd.grad(found.loss, given["logprobs"], retain_graph=True)
    (plain,) = torch.autograd.grad(objective(given, batch(), settings()).loss, given["logprobs"])
    assert (gradient - plain).tolist() == pytest.approx([0.2 * 0.5 * 0.5, -0.2 * 0.25, 0.0])


def test_the_estimator_of_the_divergence_is_the_one_that_is_set() -> None:
    found = objective(outputs(), batch(reference_logprobs=REFERENCE), settings(kl_coeff=0.2, kl_estimator="k2"))
    assert found.loss.item() == pytest.approx(POLICY + 0.2 * 0.75 * 0.5 * LN2**2)


def test_the_value_loss_has_its_coefficient_clip_and_the_tokens_scale() -> None:
    """Errors ½ (½)² for each: within the range, and twice held at its end."""
    given = outputs(critic=True)
    found = objective(given, batch(), settings(value_coeff=0.4, value_clip=0.5))
    assert found.loss.item() == pytest.approx(POLICY + 0.4 * CRITIC)
    assert numbers(found)["value_loss"] == pytest.approx(CRITIC), "reported with its scale, without its coefficient"
    (gradient,) = torch.autograd.grad(found.loss, given["values"])
    assert gradient.tolist() == pytest.approx([0.4 * 0.5 * -0.5, 0.0, 0.0])


def test_the_value_losss_clip_is_the_one_that_is_set() -> None:
    """Without a bound in reach: ½ (½)², ½ (0.2)² and ½ (0.2)²."""
    found = objective(outputs(critic=True), batch(), settings(value_coeff=1.0, value_clip=9.0))
    assert found.loss.item() == pytest.approx(POLICY + 0.5 * 0.125 + 0.5 * 0.02)


def test_all_terms_add_up() -> None:
    config = settings(entropy_coeff=0.1, kl_coeff=0.2, value_coeff=0.4)
    found = objective(outputs(critic=True), batch(reference_logprobs=REFERENCE), config)
    assert found.loss.item() == pytest.approx(POLICY - 0.1 * ENTROPY + 0.2 * KL + 0.4 * CRITIC)


def test_without_tis_the_learners_old_log_probs_are_not_asked() -> None:
    found = objective(outputs(), batch(old_logprobs=tensor(9.0, 9.0, 9.0)), settings())
    assert found.loss.item() == pytest.approx(POLICY)


def test_with_tis_the_ratio_is_to_the_learners_old_and_the_sampler_joins_the_weight() -> None:
    """Old = the log-probs now, so that ρ = 1; the weights are 1, min(1.2, 1.5) and ½ of what they were."""
    for old in (None, tensor(-1.0, -2.0, -0.5)):
        given = outputs()
        found = objective(given, batch(old_logprobs=old), settings(tis_cap=1.2))
        terms = (0.5 * -1.0, 0.25 * 2 * 1.2 * -2.0, 0.25 * 0.5 * 1.0)
        assert found.loss.item() == pytest.approx(sum(terms))
        assert numbers(found)["clipped"] == 0
        assert torch.autograd.grad(found.loss, given["logprobs"])[0].tolist() == pytest.approx(terms)


def test_the_sequence_loss_takes_the_mean_ratio_of_each_trajectory() -> None:
    """The second trajectory's mean log-ratio is ½ ln ¾: both of its tokens are then within the clips."""
    ratio = math.sqrt(0.75)
    found = objective(outputs(), batch(), settings(loss="sequence"))
    assert found.loss.item() == pytest.approx(0.5 * -1 + 0.25 * 2 * -2 * ratio + 0.25 * ratio)


@pytest.mark.parametrize(("changes", "second"), [({"clip_high": 0.1}, -1.1 * 2), ({"clip_high": 0.9}, -1.5 * 2)])
def test_the_upper_clip_is_the_one_that_is_set(changes: dict[str, float], second: float) -> None:
    assert objective(outputs(), batch(), settings(**changes)).loss.item() == pytest.approx(
        -0.5 + 0.25 * 2 * second + 0.25 * 0.8
    )


def test_lower_and_dual_clips_are_those_that_are_set() -> None:
    assert objective(outputs(), batch(), settings(clip_low=0.4)).loss.item() == pytest.approx(
        -0.5 + 0.25 * 2 * -2.56 + 0.25 * 0.6
    )
    bad = batch(advantages=tensor(1.0, -2.0, -1.0))
    for dual, second in ((1.25, 1.25 * 2), (None, 1.5 * 2)):
        found = objective(outputs(), bad, settings(clip_dual=dual))
        assert found.loss.item() == pytest.approx(-0.5 + 0.25 * 2 * second + 0.25 * 0.8)


def test_no_tokens_have_no_loss_and_no_gap() -> None:
    empty = torch.zeros(0, dtype=torch.float64)
    fields = ("behaviour_logprobs", "advantages", "returns", "old_values", "scale", "weight")
    nothing = batch(rows=torch.zeros(0, dtype=torch.int64), **dict.fromkeys(fields, empty))
    found = objective(TokenOutputs(logprobs=empty, entropy=empty, values=empty), nothing, settings(entropy_coeff=0.1))
    assert found.loss.item() == 0 and found.largest_gap.item() == 0 and not found.sums.any()
