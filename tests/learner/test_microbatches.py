"""Rows to micro-batches, by hand: which rows go together, and where every number of a row lands."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

from rllib_ragen.learner.microbatches import (
    MicroBatch,
    empty_microbatch,
    microbatches,
    num_microbatches,
    pad_rows,
    plan_microbatches,
)
from rllib_ragen.types import TokenRow


def row(mask: list[int], first: int, weight: float = 1.0) -> TokenRow:
    """Token i is first + i, and every other number of it is that plus 100, 200 …"""
    ids = np.arange(first, first + len(mask), dtype=np.int32)
    numbers = ids.astype(np.float32)
    return TokenRow(
        ids, np.asarray(mask, np.float32), numbers + 100, numbers + 200, numbers + 300, numbers + 400, weight
    )


SHORT, LONG = row([0, 1, 1], 10, weight=0.5), row([0, 1, 0, 0, 1], 20, weight=2.0)


@pytest.mark.parametrize(
    ("lengths", "budget", "plan"),
    [
        ([], 10, []),
        ([3, 5, 4], 10, [[1, 2], [0]]),  # 2 rows of 5, and a third would make 15
        ([3, 5, 4], 15, [[1, 2, 0]]),  # exactly the budget
        ([3, 5, 4], 14, [[1, 2], [0]]),
        ([2, 2, 2, 2], 6, [[0, 1, 2], [3]]),
        ([20, 3, 3, 3], 6, [[0], [1, 2], [3]]),  # longer than the budget: alone
    ],
)
def test_longest_first_as_long_as_rows_times_the_longest_fit(
    lengths: list[int], budget: int, plan: list[list[int]]
) -> None:
    assert plan_microbatches(lengths, budget) == plan


def test_numbers_of_trained_tokens_stand_row_by_row() -> None:
    found = pad_rows([SHORT, LONG], [0.25, 0.125])
    assert found.input_ids.tolist() == [[10, 11, 12, 0, 0], [20, 21, 22, 23, 24]]
    assert found.trained.int().tolist() == [[0, 1, 1, 0, 0], [0, 1, 0, 0, 1]]
    assert found.rows.tolist() == [0, 0, 1, 1]
    assert found.behaviour_logprobs.tolist() == [111, 112, 121, 124]
    assert found.advantages.tolist() == [211, 212, 221, 224]
    assert found.returns.tolist() == [311, 312, 321, 324]
    assert found.old_values.tolist() == [411, 412, 421, 424]
    assert found.scale.tolist() == [0.25, 0.25, 0.125, 0.125]
    assert found.weight.tolist() == [0.5, 0.5, 2.0, 2.0]
    assert found.old_logprobs is found.reference_logprobs is None
    dtypes = {"input_ids": torch.int64, "trained": torch.bool, "rows": torch.int64}
    for field in fields(MicroBatch):
        tensor = getattr(found, field.name)
        assert tensor is None or tensor.dtype == dtypes.get(field.name, torch.float32), field.name


def test_rows_and_their_scales_go_into_the_batches_of_the_plan() -> None:
    found = list(microbatches([SHORT, LONG, SHORT], [1.0, 2.0, 3.0], budget=8))
    assert [indices for indices, _ in found] == [[1], [0, 2]]
    assert [batch.input_ids.tolist() for _, batch in found] == [[[20, 21, 22, 23, 24]], [[10, 11, 12]] * 2]
    assert [batch.scale.tolist() for _, batch in found] == [[2, 2], [1, 1, 3, 3]]
    assert num_microbatches([SHORT, LONG, SHORT], 8) == 2


def test_what_frozen_weights_say_is_taken_at_trained_tokens() -> None:
    old, reference = ([np.arange(n, n + own, dtype=np.float32) for own in (3, 5)] for n in (1000, 2000))
    batch = pad_rows([SHORT, LONG], [1.0, 1.0])
    both = batch.with_logprobs([SHORT, LONG], old, reference)
    assert both.old_logprobs is not None and both.old_logprobs.tolist() == [1001, 1002, 1001, 1004]
    assert both.reference_logprobs is not None and both.reference_logprobs.tolist() == [2001, 2002, 2001, 2004]
    assert both.advantages is batch.advantages
    neither = both.with_logprobs([SHORT, LONG], None, None)
    assert neither.old_logprobs is neither.reference_logprobs is None


def test_moving_it_moves_every_tensor_and_makes_none() -> None:
    batch = pad_rows([SHORT], [1.0])
    moved = batch.with_logprobs([SHORT], [SHORT.logprobs], None).to(torch.device("meta"))
    assert moved.reference_logprobs is None
    tensors = [getattr(moved, field.name) for field in fields(MicroBatch) if field.name != "reference_logprobs"]
    assert [tensor.device.type for tensor in tensors] == ["meta"] * 10


def test_the_batch_of_a_learner_without_rows_has_two_tokens_that_nobody_trains() -> None:
    found = empty_microbatch()
    assert found.input_ids.tolist() == [[0, 0]] and found.trained.tolist() == [[False, False]]
    assert found.rows.tolist() == found.scale.tolist() == found.advantages.tolist() == []
