"""DAPO's soft overlong punishment, by hand and against what may never happen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.overlong import overlong_penalty, without_overlong
from rllib_ragen.credit.registry import make_estimator
from tests.credit.build import trajectory


@pytest.mark.parametrize(
    ("length", "penalty"),
    [(0, 0.0), (6, 0.0), (7, -0.25), (8, -0.5), (9, -0.75), (10, -1.0), (11, -1.0)],  # L_max 10, L_cache 4
)
def test_hand_computed_penalties(length: int, penalty: float) -> None:
    assert overlong_penalty(length, 10, 4) == penalty


def test_every_turn_is_judged_by_its_own_reply() -> None:
    # Replies of 7, 2 and 10 tokens; prompts, however long, cost nothing: −¼, 0, −1.
    item = trajectory("a", [(50, 7, 0.5), (1, 2, 0.0), (9, 10, 1.0)])
    after = without_overlong(item, 10, 4)
    assert [turn.reward for turn in after.turns] == [0.25, 0.0, 0.0]
    assert [turn.reward for turn in item.turns] == [0.5, 0.0, 1.0], "filters and logs read the raw rewards"
    assert without_overlong(item, 10, None) is item


def test_of_equal_returns_the_cut_off_reply_is_worse() -> None:
    batch = [without_overlong(trajectory("a", [(1, length, 1.0)]), 10, 4) for length in (10, 3)]
    cut, short = make_estimator(CreditSection(estimator="rloo"))(batch)
    assert cut.advantages[-1] == -1 and short.advantages[-1] == 1


@given(limit=st.integers(1, 500), share=st.floats(0, 1), lengths=st.lists(st.integers(0, 600), min_size=2))
def test_longer_is_never_cheaper_and_nothing_costs_more_than_one(limit: int, share: float, lengths: list[int]) -> None:
    cache = max(1, int(share * limit))
    penalties = [overlong_penalty(length, limit, cache) for length in sorted(lengths)]
    assert penalties == sorted(penalties, reverse=True)
    assert all(-1 <= penalty <= 0 for penalty in penalties)
    assert overlong_penalty(limit, limit, cache) == -1 and overlong_penalty(limit - cache, limit, cache) == 0
