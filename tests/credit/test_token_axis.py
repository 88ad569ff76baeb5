"""Numbers on the token axis: where rewards sit, sums along it, whitening, and the way back."""

from __future__ import annotations

import numpy as np
import pytest

from rllib_ragen.credit.token_axis import at_trained, credits_of, discounted, token_rewards, whitened
from tests.credit.build import trajectory

TWO_TURNS = trajectory("a", [(2, 2, 0.5), (1, 3, 2.0)])
"""Positions 2, 3 and 5, 6, 7 are sampled."""


@pytest.mark.parametrize(
    ("turn_rewards", "expected"),
    [(True, [0, 0, 0, 0.5, 0, 0, 0, 2.0]), (False, [0, 0, 0, 0, 0, 0, 0, 2.5])],
)
def test_rewards_sit_on_the_last_sampled_token_of_their_turn_or_of_all(
    turn_rewards: bool, expected: list[float]
) -> None:
    assert token_rewards(TWO_TURNS, turn_rewards).tolist() == expected


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([(1, 2, 0.5), (2, 0, 0.25)], [0, 0, 0.75, 0, 0]),  # to the last sampled token before it
        ([(2, 0, 0.25), (1, 2, 0.5)], [0, 0, 0, 0.25, 0.5]),  # to the first one, if there is none before
    ],
)
def test_the_reward_of_a_turn_without_a_sampled_token_goes_to_a_neighbour(
    turns: list[tuple[int, int, float]], expected: list[float]
) -> None:
    assert token_rewards(trajectory("a", turns), True).tolist() == expected


@pytest.mark.parametrize("turn_rewards", [True, False])
def test_without_a_sampled_token_there_is_nowhere_to_put_a_reward(turn_rewards: bool) -> None:
    assert token_rewards(trajectory("a", [(3, 0, 1.0)]), turn_rewards).tolist() == [0, 0, 0]


def test_numbers_are_taken_from_the_sampled_tokens_and_put_back_there() -> None:
    (taken,) = at_trained([TWO_TURNS], [np.arange(8, dtype=np.float32)])
    assert taken.tolist() == [2, 3, 5, 6, 7] and taken.dtype == np.float64
    (credit,) = credits_of([TWO_TURNS], [taken], [taken + 10])
    assert credit.advantages.tolist() == [0, 0, 2, 3, 0, 5, 6, 7]
    assert credit.returns.tolist() == [0, 0, 12, 13, 0, 15, 16, 17]
    assert credit.advantages.dtype == credit.returns.dtype == np.float32


def test_without_a_critic_its_targets_are_0() -> None:
    (credit,) = credits_of([TWO_TURNS], [np.ones(5)])
    assert credit.returns.tolist() == [0] * 8


def test_discounting_sums_from_the_end_and_leaves_its_terms_alone() -> None:
    terms = np.array([1.0, 2.0, 4.0])
    assert discounted(terms, 0.5).tolist() == [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4]
    assert terms.tolist() == [1, 2, 4]
    assert discounted(np.zeros(0), 0.5).tolist() == []


def test_whitening_is_over_all_numbers_of_the_batch() -> None:
    """1, 3 and 8: mean 4, variance (9 + 1 + 16)/2 = 13."""
    first, empty, second = whitened([np.array([1.0, 3.0]), np.zeros(0), np.array([8.0])])
    scale = 1 / np.sqrt(13 + 1e-8)
    assert [*first, *second] == pytest.approx([-3 * scale, -1 * scale, 4 * scale]) and empty.shape == (0,)


def test_two_numbers_have_a_variance_and_one_is_only_centred() -> None:
    assert whitened([np.array([1.0, 3.0])])[0] == pytest.approx([-1 / np.sqrt(2 + 1e-8), 1 / np.sqrt(2 + 1e-8)])
    assert whitened([np.array([5.0])])[0].tolist() == [0.0]
    assert whitened([]) == [] and whitened([np.zeros(0)])[0].tolist() == []


def test_equal_numbers_are_whitened_to_0() -> None:
    assert whitened([np.full(3, 0.5)])[0].tolist() == [0, 0, 0]
