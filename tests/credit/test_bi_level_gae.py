"""Bi-level GAE against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.estimator import Estimator
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.types import Trajectory
from tests.credit.build import trajectory, values_at_trained


def estimator(**section: object) -> Estimator:
    return make_estimator(CreditSection.model_validate({"estimator": "bi_level_gae", **section}))


# A zero-reward turn of two tokens, then a turn of one token with reward 1. One turn, reward 0: an all-zero episode.
TWO_TURNS = trajectory("a", [(2, 2, 0.0), (1, 1, 1.0)])
ALL_ZERO = trajectory("a", [(1, 1, 0.0)])
VALUES = [values_at_trained(TWO_TURNS, [0.2, 0.5, 0.6]), values_at_trained(ALL_ZERO, [0.1])]


def test_hand_computed_case() -> None:
    # turns (γ 0.9, λ ½): A_1 = 1 − 0.6 = 0.4;  A_0 = (0 + 0.9·0.6 − 0.5) + 0.45·0.4 = 0.22;  other episode −0.1
    # tokens (γ ½, λ ½): turn 1: 0.4.  turn 0: last 0.22, first (½·0.5 − 0.2) + ¼·0.22 = 0.105
    # mean of 0.105, 0.22, 0.4, −0.1: 0.15625; var (ddof 1) 0.13176875/3 = 0.0439229; std 0.2095779
    first, second = estimator(turn_gamma=0.9, gamma=0.5, lam=0.5)([TWO_TURNS, ALL_ZERO], VALUES)
    assert first.advantages == pytest.approx([0, 0, -0.244539, 0.304183, 0, 1.163052], abs=1e-6)
    assert second.advantages == pytest.approx([0, -1.222696], abs=1e-6)
    assert first.returns == pytest.approx([0, 0, 0.305, 0.72, 0, 1.0])  # raw A + V, before whitening
    assert second.returns == pytest.approx([0, 0])


def test_a_single_turn_is_ordinary_gae() -> None:
    item = trajectory("a", [(2, 5, 0.7)])
    values = [values_at_trained(item, [0.1, -0.3, 0.2, 0.9, 0.4])]
    section = {"gamma": 0.9, "lam": 0.8}
    gae = make_estimator(CreditSection.model_validate({"estimator": "gae", **section}))
    ((ours,), (theirs,)) = (e([item], values) for e in (estimator(**section), gae))
    assert ours.advantages.tolist() == theirs.advantages.tolist()
    assert ours.returns.tolist() == theirs.returns.tolist()


def test_all_zero_batches_and_empty_episodes_pass() -> None:
    batch = [ALL_ZERO, ALL_ZERO, trajectory("a", [])]
    credits = estimator()(batch, [np.zeros(t.num_tokens, np.float32) for t in batch])
    assert not any(credit.advantages.any() or credit.returns.any() for credit in credits)


def test_turns_discount_by_turn_and_not_by_token() -> None:
    short = trajectory("a", [(1, 1, 0.0), (1, 1, 1.0)])
    long = trajectory("a", [(1, 9, 0.0), (5, 9, 1.0)])
    credits = estimator(turn_gamma=0.5)([short, long], [np.zeros(t.num_tokens, np.float32) for t in (short, long)])
    for item, credit in zip((short, long), credits, strict=True):
        assert {(int(k), float(r)) for k, r in zip(item.turn_index(), credit.returns, strict=True) if k >= 0} == {
            (0, 0.5),
            (1, 1.0),
        }


def test_with_turn_rewards_off_only_the_last_turn_is_paid() -> None:
    item = trajectory("a", [(1, 1, 0.25), (1, 1, -0.125)])
    (credit,) = estimator(turn_gamma=0.5, turn_rewards=False)([item], [np.zeros(4, np.float32)])
    assert credit.returns.tolist() == [0, 0.0625, 0, 0.125]


@settings(max_examples=50, deadline=None)
@given(
    turns=st.lists(st.tuples(st.integers(1, 4), st.sampled_from([-0.1, 0.0, 1.0])), min_size=1, max_size=4),
    lengths=st.lists(st.integers(0, 5), min_size=4, max_size=4),
    data=st.data(),
)
def test_C3_observation_tokens_neither_add_a_step_nor_reset_the_sum(
    turns: list[tuple[int, float]], lengths: list[int], data: st.DataObject
) -> None:
    count = sum(num_reply for num_reply, _ in turns)
    values = data.draw(st.lists(st.floats(-2, 2, width=32), min_size=count, max_size=count))
    short = trajectory("a", [(1, num_reply, reward) for num_reply, reward in turns])
    long = trajectory("a", [(1 + n, num_reply, r) for n, (num_reply, r) in zip(lengths, turns, strict=False)])

    def returns(item: Trajectory) -> list[float]:
        (credit,) = estimator(gamma=0.9, lam=0.8)([item], [values_at_trained(item, values)])
        found: list[float] = credit.returns[item.turn_index() >= 0].tolist()
        return found

    assert returns(short) == returns(long)


def test_a_first_turn_without_a_sampled_token_leaves_its_reward_to_the_next() -> None:
    late = trajectory("a", [(2, 0, 0.5), (1, 2, 1.0)])
    (credit,) = estimator(turn_gamma=0.5, gamma=1.0, lam=1.0)([late], [values_at_trained(late, [0.25, 0.5])])
    assert credit.returns == pytest.approx([0, 0, 0, 1.5, 1.5])


def test_rewards_count_where_their_turns_last_token_is() -> None:
    """Prompts of unequal lengths lie between them: turns of 2 and 3 tokens, paid 0.5 and 1, without any discount."""
    item = trajectory("a", [(3, 2, 0.5), (4, 3, 1.0)])
    (credit,) = estimator(turn_gamma=1.0, gamma=1.0, lam=1.0)([item], [np.zeros(12, np.float32)])
    assert credit.returns.tolist() == [0, 0, 0, 1.5, 1.5, 0, 0, 0, 0, 1, 1, 1]
