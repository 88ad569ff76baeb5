"""The plan of an update, by hand: steps, totals and learners' shares."""

from __future__ import annotations

import numpy as np
import pytest

from rllib_ragen.learner.training_data import OptimizerStep, TokenTrainingData, Totals, balance
from rllib_ragen.types import TokenRow


def row(length: int, trained: int = 1, module_id: str = "one") -> TokenRow:
    """Of so many tokens, the last ones of which are trained."""
    mask = np.zeros(length, np.float32)
    mask[length - trained :] = 1
    return TokenRow(mask.astype(np.int32), mask, mask, mask, mask, mask, module_id=module_id)


def plan(rows: list[TokenRow], minibatches: int, epochs: int = 1, seed: int = 0) -> list[OptimizerStep]:
    rng = np.random.default_rng(seed)
    return TokenTrainingData.plan(rows, num_minibatches=minibatches, num_epochs=epochs, rng=rng).steps


def indices(step: OptimizerStep) -> list[int]:
    return [one.index for one in step.rows]


def test_an_epoch_is_a_permutation_cut_into_nearly_equal_steps() -> None:
    order = np.random.default_rng(5)
    expected = [sorted(part.tolist()) for _ in range(2) for part in np.array_split(order.permutation(7), 3)]
    found = plan([row(3) for _ in range(7)], 3, epochs=2, seed=5)
    assert [indices(step) for step in found] == expected
    assert [len(step.rows) for step in found] == [3, 2, 2, 3, 2, 2]


def test_every_module_has_its_part_of_every_step() -> None:
    rows = [row(3, module_id=name) for name in ("two", "one", "two", "one", "two", "one")]
    found = plan(rows, 3)
    for step in found:
        assert [one.module_id for one in step.rows] == ["one", "two"]
    assert sorted(index for step in found for index in indices(step)) == [*range(6)]
    assert [rows[index].module_id for step in found for index in indices(step)] == ["one", "two"] * 3


def test_a_step_without_a_row_is_left_out() -> None:
    assert [len(step.rows) for step in plan([row(3), row(4)], 5)] == [1, 1]


def test_totals_are_of_the_whole_step_by_module() -> None:
    (step,) = plan([row(5, 2), row(4, 0), row(9, 3), row(3, 1, "two")], 1)
    assert step.totals == {"one": Totals(tokens=5, rows=2), "two": Totals(tokens=1, rows=1)}


def test_shares_have_all_rows_and_the_whole_steps_totals() -> None:
    data = TokenTrainingData.plan(
        [row(n, 1) for n in (9, 5, 4, 2)], num_minibatches=1, num_epochs=2, rng=np.random.default_rng(0)
    )
    (first, more), (second, further) = data.shard(2)
    assert (more, further) == ({}, {})
    for one, other, whole in zip(first.steps, second.steps, data.steps, strict=True):
        assert ([r.num_tokens for r in one.rows], [r.num_tokens for r in other.rows]) == ([9, 2], [5, 4])
        assert one.totals == other.totals == whole.totals == {"one": Totals(4, 4)}
    assert len(data.steps) == 2


@pytest.mark.parametrize(
    ("lengths", "shares"),
    [
        ([2, 9, 4, 5], [[9, 2], [5, 4]]),  # 9 | 5 | 4 to the 5 | 2: both have 9, so to the first
        ([3, 3, 3], [[3, 3], [3]]),
        ([7], [[7], []]),
        ([], [[], []]),
    ],
)
def test_the_longest_goes_first_and_each_to_the_emptiest_share(lengths: list[int], shares: list[list[int]]) -> None:
    found = balance([row(length) for length in lengths], 2)
    assert [[one.num_tokens for one in share] for share in found] == shares


def test_an_update_needs_a_trained_token() -> None:
    TokenTrainingData(steps=plan([row(3, 0), row(3, 1)], 2)).validate()
    for steps in ([], plan([row(3, 0)], 1)):
        with pytest.raises(ValueError, match="at least one trained token"):
            TokenTrainingData(steps=steps).validate()
    TokenTrainingData().solve_refs()
