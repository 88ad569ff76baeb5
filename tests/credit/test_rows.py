"""Rows: one mask, exactly the sampled tokens; advantages scaled over the batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_ragen.credit.estimator import Credit
from rllib_ragen.credit.gae import GAE
from rllib_ragen.credit.rloo import RLOO
from rllib_ragen.credit.rows import to_rows
from rllib_ragen.types import StopReason, Trajectory
from tests.credit.build import group_of, trajectory

TURNS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5), st.just(1.0)), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(turns=TURNS)
def test_T4_the_mask_is_exactly_the_sampled_tokens(turns: list[tuple[int, int, float]]) -> None:
    """Prompt tokens (headers, forced tags, end-of-turn tokens that were not sampled) are never trained."""
    item = trajectory("a", turns)
    (row,) = to_rows([item], RLOO()([item]), None, "none")
    assert row.token_ids[row.mask > 0].tolist() == [i for turn in item.turns for i in turn.reply_ids.tolist()]
    assert row.token_ids[row.mask == 0].tolist() == [i for turn in item.turns for i in turn.prompt_ids.tolist()]
    assert row.logprobs[row.mask > 0].tolist() == [p for turn in item.turns for p in turn.logprobs.tolist()]
    assert set(row.mask.tolist()) <= {0.0, 1.0} and row.mask[0] == 0
    assert row.num_trained_tokens == item.num_reply_tokens


@pytest.mark.parametrize("reason", [StopReason.CONTEXT_FULL, StopReason.MAX_TURNS, StopReason.GOAL])
def test_T5_a_truncated_reply_is_trained_like_any_other_and_all_masks_agree(reason: StopReason) -> None:
    """Nothing in a row depends on how the reply ended: mask, log-probs, advantages and returns have one support."""
    batch = [trajectory("a", [(2, 3, 0.0), (2, 4, 1.0)], reason), *group_of("a", [0.0])]
    for credits in (RLOO()(batch), GAE()(batch, [np.ones(t.num_tokens, np.float32) for t in batch])):
        row = to_rows(batch, credits, [np.ones(t.num_tokens, np.float32) for t in batch], "batch")[0]
        assert row.mask.tolist() == [0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1]
        for array in (row.logprobs, row.advantages, row.old_values):
            assert ((array != 0) == (row.mask > 0)).all()


def test_first_token_must_be_a_prompts() -> None:
    item = trajectory("a", [(0, 2, 1.0)])
    with pytest.raises(ValueError, match="begins with a sampled token"):
        to_rows([item], RLOO()([item]), None, "none")
    shortest = trajectory("a", [(1, 2, 1.0)])
    (row,) = to_rows([shortest], RLOO()([shortest]), None, "none")
    assert row.mask.tolist() == [0, 1, 1]


def test_batch_normalisation_divides_by_the_std_over_trained_tokens_and_does_not_centre() -> None:
    # Trained advantages: 1 four times, −1 once, 0 once. Mean ½, mean square 5/6: std = √(5/6 − 1/4) = 0.7637626.
    batch = [trajectory("a", [(2, 4, 1.0)]), trajectory("a", [(2, 1, 0.0)]), trajectory("b", [(2, 1, 0.0)])]
    rows = to_rows(batch, RLOO()(batch), None, "batch")
    expected = 1 / (0.7637626 + 1e-6)
    assert rows[0].advantages.tolist() == pytest.approx([0, 0, expected, expected, expected, expected])
    assert rows[1].advantages.tolist() == pytest.approx([0, 0, -expected])
    assert rows[2].advantages.tolist() == [0, 0, 0]
    raw = to_rows(batch, RLOO()(batch), None, "none")
    assert raw[0].advantages.tolist() == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("batch", [[], group_of("a", [0.0, 0.0]), group_of("a", [0.1, 0.1, 0.1])])
def test_a_batch_without_advantages_stays_finite_and_zero(batch: list[Trajectory]) -> None:
    rows = to_rows(batch, RLOO()(batch), None, "batch")
    assert len(rows) == len(batch)
    assert not any(row.advantages.any() for row in rows)


def test_advantages_that_are_all_the_same_keep_their_size() -> None:
    batch = group_of("a", [1.0, 2.0])
    ones = [Credit((one.turn_index() >= 0).astype(np.float32), np.zeros(one.num_tokens, np.float32)) for one in batch]
    assert [row.advantages.tolist() for row in to_rows(batch, ones, None, "batch")] == [[0, 0, 1, 1, 1]] * 2


def test_trajectories_without_a_sampled_token_have_no_row() -> None:
    batch = [trajectory("a", []), trajectory("a", [(3, 0, 1.0)]), *group_of("a", [1.0])]
    assert len(to_rows(batch, RLOO()(batch), None, "batch")) == 1


def test_rows_are_float32_aligned_and_keep_their_module() -> None:
    item = trajectory("a", [(2, 3, 1.0)])
    item.module_id = "player_1"
    (row,) = to_rows([item], RLOO()([item]), [np.full(5, 7, np.float32)], "batch")
    for array in (row.mask, row.logprobs, row.advantages, row.returns, row.old_values):
        assert array.dtype == np.float32 and array.shape == (5,)
    assert row.token_ids.dtype == np.int32
    assert row.old_values.tolist() == [0, 0, 7, 7, 7]
    assert row.module_id == "player_1" and row.weight == 1.0


def test_without_a_critic_old_values_are_zeros_and_without_weights_each_is_1() -> None:
    batch = group_of("a", [1.0, 0.0])
    for row in to_rows(batch, RLOO()(batch), None, "none"):
        assert row.old_values.tolist() == [0.0] * 5 and row.old_values.dtype == np.float32
        assert row.weight == 1.0


def test_each_row_has_its_own_trajectorys_weight() -> None:
    batch = [*group_of("a", [1.0]), trajectory("a", [(3, 0, 1.0)]), *group_of("a", [0.0])]
    assert [row.weight for row in to_rows(batch, RLOO()(batch), None, "none", [0.5, 9.0, 2.0])] == [0.5, 2.0]
