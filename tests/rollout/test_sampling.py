"""Sampling one token per row, against distributions and inverse CDFs worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from rllib_ragen.rollout.engines.sampling import SamplingTensors, sample_tokens

PROBS = [0.2, 0.5, 0.3]
"""Not in order: the likeliest token is the second."""


def settings(uniforms: list[float], **changes: Any) -> SamplingTensors:
    rows = len(uniforms)
    columns = {"temperature": 1.0, "top_p": 1.0, "top_k": 0} | changes
    spread = {name: value if isinstance(value, list) else [value] * rows for name, value in columns.items()}
    return SamplingTensors(
        temperature=torch.tensor(spread["temperature"], dtype=torch.float32),
        top_p=torch.tensor(spread["top_p"], dtype=torch.float32),
        top_k=torch.tensor(spread["top_k"], dtype=torch.int64),
        uniforms=torch.tensor(uniforms, dtype=torch.float64),
    )


def draw(probs: list[float], uniforms: list[float], **changes: Any) -> list[tuple[int, float]]:
    """(token, probability that was said of it) for each uniform."""
    logits = torch.tensor([probs] * len(uniforms)).log() + 3.0
    tokens, logprobs = sample_tokens(logits, settings(uniforms, **changes))
    assert tokens.dtype == torch.int64 and logprobs.dtype == torch.float32
    return list(zip(tokens.tolist(), logprobs.exp().tolist(), strict=True))


def assert_drawn(found: list[tuple[int, float]], expected: list[tuple[int, float]]) -> None:
    assert [token for token, _ in found] == [token for token, _ in expected]
    assert [prob for _, prob in found] == pytest.approx([prob for _, prob in expected], abs=1e-6)


def test_a_uniform_falls_into_a_tokens_part_of_the_cdf() -> None:
    found = draw(PROBS, [0.0, 0.19, 0.21, 0.69, 0.71, 1 - 2**-53])
    assert_drawn(found, [(0, 0.2), (0, 0.2), (1, 0.5), (1, 0.5), (2, 0.3), (2, 0.3)])


def test_a_part_begins_with_its_lower_end() -> None:
    assert draw([0.5, 0.5], [0.5])[0][0] == 1


def test_a_token_of_probability_0_is_never_drawn() -> None:
    assert_drawn(draw([0.0, 1.0, 0.0], [0.0, 1 - 2**-53]), [(1, 1.0), (1, 1.0)])


def test_temperature_divides_logits() -> None:
    """√0.8 : √0.2 is 2 : 1; 0.8² : 0.2² is 16 : 1."""
    assert_drawn(draw([0.8, 0.2], [0.6, 0.7], temperature=2.0), [(0, 2 / 3), (1, 1 / 3)])
    assert_drawn(draw([0.8, 0.2], [0.93, 0.95], temperature=0.5), [(0, 16 / 17), (1, 1 / 17)])


def test_temperature_0_is_greedy_with_the_untempered_probability() -> None:
    assert_drawn(draw(PROBS, [0.0, 0.99], temperature=0.0), [(1, 0.5), (1, 0.5)])


def test_a_greedy_token_keeps_its_probability_under_truncation() -> None:
    assert_drawn(draw(PROBS, [0.0, 0.99], temperature=0.0, top_k=1, top_p=0.1), [(1, 0.5), (1, 0.5)])


def test_top_k_keeps_the_likeliest_and_renormalises() -> None:
    assert_drawn(draw(PROBS, [0.0, 0.62, 0.63, 0.999], top_k=2), [(1, 0.625), (1, 0.625), (2, 0.375), (2, 0.375)])
    assert_drawn(draw(PROBS, [0.0, 0.999], top_k=1), [(1, 1.0), (1, 1.0)])
    assert_drawn(draw(PROBS, [0.0, 0.999], top_k=3), [(0, 0.2), (2, 0.3)])


@pytest.mark.parametrize(
    ("top_p", "expected"),
    [(0.0, (1, 1.0)), (0.45, (1, 1.0)), (0.6, (2, 0.375)), (0.75, (2, 0.375)), (0.85, (2, 0.3))],
)
def test_top_p_keeps_the_fewest_that_reach_it(top_p: float, expected: tuple[int, float]) -> None:
    """The likeliest always; the second if 0.5 < p; the third if 0.8 < p."""
    assert_drawn(draw(PROBS, [0.999], top_p=top_p), [expected])


def test_top_p_counts_among_the_tokens_that_top_k_left() -> None:
    """Among two, the likeliest has 0.625 ≥ 0.6 by itself."""
    assert_drawn(draw(PROBS, [0.999], top_k=2, top_p=0.6), [(1, 1.0)])


def test_rows_have_settings_of_their_own() -> None:
    found = draw(PROBS, [0.999] * 4, temperature=[1.0, 0.0, 1.0, 1.0], top_p=[1.0, 1.0, 0.6, 1.0], top_k=[0, 0, 0, 1])
    assert_drawn(found, [(2, 0.3), (1, 0.5), (2, 0.375), (1, 1.0)])


@pytest.mark.parametrize("how", [{}, {"top_k": [0, 1]}, {"top_p": [1.0, 0.5]}, {"temperature": [1.0, 0.0]}], ids=str)
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_whose_logits_are_no_distribution_is_marked_and_alone(bad: float, place: int, how: Any) -> None:
    logits = torch.tensor([PROBS, [1.0, 1.0, 1.0]]).log()
    logits[1, place] = bad
    tokens, logprobs = sample_tokens(logits, settings([0.71, 0.71], **how))
    assert tokens[0] == 2 and logprobs[0].exp().item() == pytest.approx(0.3)
    assert math.isnan(logprobs[1]) and 0 <= tokens[1] < 3


def test_a_row_of_tokens_that_are_all_impossible_is_marked() -> None:
    tokens, logprobs = sample_tokens(torch.full((1, 3), -torch.inf), settings([0.5]))
    assert math.isnan(logprobs[0]) and 0 <= tokens[0] < 3


def test_the_largest_uniform_stays_within_what_rounding_left_of_the_cdf() -> None:
    """Three thirds in float32 are less than 1 by 5e-8, and the last token is impossible."""
    logits = torch.tensor([[0.0, 0.0, 0.0, -torch.inf]])
    assert logits.log_softmax(-1).double().exp().sum() < 1 - 1e-9
    tokens, _ = sample_tokens(logits, settings([1 - 2**-53]))
    assert tokens.tolist() == [2]


def test_a_share_that_the_likeliest_just_has_is_reached() -> None:
    ((_, prob),) = draw([0.5, 0.5], [0.999], top_p=0.5)
    assert prob == 1.0


@pytest.mark.parametrize(
    ("changes", "truncates"),
    [
        ({}, False),
        ({"top_p": [1.0, 0.9]}, True),
        ({"top_k": [0, 1]}, True),
        ({"top_p": [1.0, 0.9], "top_k": [3, 0]}, True),
    ],
)
def test_any_row_that_cuts_off_part_of_the_vocabulary_counts(changes: dict[str, Any], truncates: bool) -> None:
    assert settings([0.0, 0.0], **changes).truncates is truncates


def test_sampling_leaves_the_logits_as_they_are() -> None:
    logits = torch.tensor([PROBS]).log()
    before = logits.clone()
    sample_tokens(logits, settings([0.5], top_k=2))
    assert torch.equal(logits, before)
