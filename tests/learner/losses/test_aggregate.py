"""Row scales: the mean asked for, whatever the split."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_ragen.learner.losses.aggregate import Aggregation, row_scales

AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
LOSSES = [[1.0, 2.0, 3.0], [10.0], []]
COUNTS = [len(row) for row in LOSSES]


def total(rows: list[list[float]], scales: list[float]) -> float:
    return sum(scale * sum(row) for row, scale in zip(rows, scales, strict=True))


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("token-mean", 16 / 4),
        ("seq-mean-token-mean", (2 + 10) / 2),
        ("seq-mean-token-sum", (6 + 10) / 2),
        ("seq-mean-token-sum-norm", (6 / 8 + 10 / 8) / 2),
    ],
)
def test_hand_computed_means(aggregation: Aggregation, expected: float) -> None:
    scales = row_scales(COUNTS, aggregation, total_tokens=4, total_rows=2, norm_tokens=8)
    assert total(LOSSES, scales) == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(st.lists(st.floats(-3, 3), max_size=6), min_size=1, max_size=8),
    cut=st.integers(0, 8),
    aggregation=st.sampled_from(AGGREGATIONS),
)
def test_any_split_over_microbatches_and_learners_adds_up(
    rows: list[list[float]], cut: int, aggregation: Aggregation
) -> None:
    tokens, filled = sum(map(len, rows)), sum(map(bool, rows))

    def part(some: list[list[float]]) -> float:
        lengths = [len(row) for row in some]
        scales = row_scales(lengths, aggregation, total_tokens=tokens, total_rows=filled, norm_tokens=5)
        return total(some, scales)

    assert part(rows[:cut]) + part(rows[cut:]) == pytest.approx(part(rows))


def test_rows_without_tokens_weigh_nothing_even_alone() -> None:
    for aggregation in AGGREGATIONS:
        assert row_scales([0, 0], aggregation, total_tokens=0, total_rows=0, norm_tokens=5) == [0.0, 0.0]


def test_local_totals_given_as_global_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="less than the rows at hand"):
        row_scales([3, 2], "token-mean", total_tokens=4, total_rows=2)
    with pytest.raises(ValueError, match="less than the rows at hand"):
        row_scales([3, 2], "seq-mean-token-sum", total_tokens=5, total_rows=1)
    with pytest.raises(ValueError, match=r"\(1 rows, 2 tokens\) are less than the rows at hand \(2 rows, 2 tokens\)"):
        row_scales([1, 1, 0], "seq-mean-token-sum", total_tokens=2, total_rows=1)


def test_the_constant_length_must_be_given() -> None:
    with pytest.raises(ValueError, match=r"learner\.norm_tokens ≥ 1"):
        row_scales([1], "seq-mean-token-sum-norm", total_tokens=1, total_rows=1)


def test_unknown_aggregation_names_the_allowed_ones() -> None:
    with pytest.raises(ValueError, match=r"learner\.aggregation.*'mean'.*token-mean, seq-mean-token-mean"):
        row_scales([1], "mean", total_tokens=1, total_rows=1)  # type: ignore[arg-type]
