"""GAE against numbers worked out by hand, and the span-skipping that peers get wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_ragen.credit.gae import GAE
from rllib_ragen.credit.token_axis import token_rewards
from tests.credit.build import trajectory, values_at_trained

# Two turns, tokens P P S S P S; rewards 0 and 1. One turn, tokens P S; reward 0 (an all-zero episode).
TWO_TURNS = trajectory("a", [(2, 2, 0.0), (1, 1, 1.0)])
ALL_ZERO = trajectory("a", [(1, 1, 0.0)])
VALUES = [values_at_trained(TWO_TURNS, [0.2, 0.5, 0.6]), values_at_trained(ALL_ZERO, [0.1])]


def test_hand_computed_case_with_discount_and_lambda_one_half() -> None:
    # A(5) = 1 − 0.6 = 0.4;  A(3) = (0 + ½·0.6 − 0.5) + ¼·0.4 = −0.1;  A(2) = (½·0.5 − 0.2) + ¼·(−0.1) = 0.025
    # other episode: A(1) = 0 − 0.1 = −0.1. Mean 0.05625, var (ddof 1) 0.16796875/3 = 0.0559896, std 0.2366212.
    first, second = GAE(gamma=0.5, lam=0.5)([TWO_TURNS, ALL_ZERO], VALUES)
    assert first.advantages == pytest.approx([0, 0, -0.132068, -0.660338, 0, 1.452744], abs=1e-6)
    assert second.advantages == pytest.approx([0, -0.660338], abs=1e-6)
    assert first.returns == pytest.approx([0, 0, 0.225, 0.4, 0, 1.0])  # raw A + V, before whitening
    assert second.returns == pytest.approx([0, 0])


def test_all_zero_batch_with_a_zero_critic_has_no_advantage() -> None:
    credits = GAE()([ALL_ZERO, ALL_ZERO], [np.zeros(2, np.float32)] * 2)
    assert not any(credit.advantages.any() or credit.returns.any() for credit in credits)


def test_a_single_trained_token_is_centred_and_finite() -> None:
    (credit,) = GAE()([trajectory("a", [(1, 1, 1.0)])], [np.zeros(2, np.float32)])
    assert credit.advantages.tolist() == [0, 0] and credit.returns.tolist() == [0, 1]


def test_an_empty_batch_and_an_empty_episode_pass() -> None:
    assert GAE()([], []) == []
    (credit,) = GAE()([trajectory("a", [])], [np.zeros(0, np.float32)])
    assert credit.advantages.shape == credit.returns.shape == (0,)


def test_rewards_sit_on_each_turns_last_sampled_token_or_all_on_the_last() -> None:
    item = trajectory("a", [(2, 2, 0.5), (1, 3, 0.0), (2, 1, -0.1)])
    assert token_rewards(item, True).tolist() == [0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, -0.1]
    assert token_rewards(item, False).tolist() == [0] * 10 + [0.4]


def test_the_reward_of_a_turn_without_a_sampled_token_is_not_lost() -> None:
    item = trajectory("a", [(1, 0, 0.25), (1, 2, 0.5), (1, 0, 1.0)])
    assert token_rewards(item, True).tolist() == [0, 0, 0.25, 1.5, 0]


def test_values_are_asked_for_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="GAE needs one array of values per trajectory: 1, got none"):
        GAE()([ALL_ZERO])
    with pytest.raises(ValueError, match="1, got 2"):
        GAE()([ALL_ZERO], VALUES)
    with pytest.raises(ValueError, match=r"shape \(2,\), got \(6,\)"):
        GAE()([ALL_ZERO], VALUES[:1])


TURNS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([-0.1, 0.0, 1.0])), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(turns=TURNS, lengths=st.lists(st.integers(0, 5), min_size=4, max_size=4), data=st.data())
def test_C3_observation_tokens_neither_add_a_step_nor_reset_the_sum(
    turns: list[tuple[int, float]], lengths: list[int], data: st.DataObject
) -> None:
    """The same sampled tokens, values and rewards, with long or short observations between them: same credits."""
    count = sum(num_reply for num_reply, _ in turns)
    values = data.draw(st.lists(st.floats(-2, 2, width=32), min_size=count, max_size=count))
    short = trajectory("a", [(1, num_reply, reward) for num_reply, reward in turns])
    long = trajectory("a", [(1 + n, num_reply, r) for n, (num_reply, r) in zip(lengths, turns, strict=False)])
    estimator = GAE(gamma=0.9, lam=0.8)
    a, b = (estimator([t], [values_at_trained(t, values)])[0] for t in (short, long))
    assert a.advantages[short.turn_index() >= 0].tolist() == b.advantages[long.turn_index() >= 0].tolist()
    assert a.returns[short.turn_index() >= 0].tolist() == b.returns[long.turn_index() >= 0].tolist()


def test_C3_undiscounted_returns_carry_the_last_reward_to_the_first_token() -> None:
    item = trajectory("a", [(3, 2, 0.0), (9, 2, 0.0), (9, 1, 1.0)])
    (credit,) = GAE()([item], [np.zeros(item.num_tokens, np.float32)])
    assert credit.returns[item.turn_index() >= 0].tolist() == [1, 1, 1, 1, 1]


def test_C4_every_turns_reward_is_used() -> None:
    item = trajectory("a", [(1, 1, 0.25), (1, 1, -0.125), (1, 1, 1.0)])
    (credit,) = GAE()([item], [np.zeros(6, np.float32)])
    assert credit.returns[item.turn_index() >= 0].tolist() == [1.125, 0.875, 1.0]
    (summed,) = GAE(turn_rewards=False)([item], [np.zeros(6, np.float32)])
    assert summed.returns[item.turn_index() >= 0].tolist() == [1.125, 1.125, 1.125]
