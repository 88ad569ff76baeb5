"""A curriculum: levels open by recent success, are drawn where there is something to learn, and are remembered."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import pytest

from rllib_ragen.config.curriculum import CurriculumSection
from rllib_ragen.starpo.matchmaking.curriculum import Curriculum


def make(levels: int = 3, **keys: Any) -> Curriculum:
    section = {"levels": [{"task": {"size": k}} for k in range(levels)], "window": 4, **keys}
    return Curriculum(CurriculumSection.model_validate(section))


def test_the_next_level_opens_after_a_full_window_of_success_and_one_at_a_time() -> None:
    curriculum = make(raise_at=0.7)
    curriculum.note([(0, 1.0), (0, 1.0), (0, 1.0)])
    assert curriculum.open == 1, "three groups are no window of four"
    assert curriculum.shares() == [1.0, 0.0, 0.0]
    curriculum.note([(0, 0.0)])
    assert curriculum.open == 2, "a mean of 0.75"
    curriculum.note([(0, 1.0)] * 8)
    assert curriculum.open == 2, "what counts is the highest open level"
    curriculum.note([(1, 0.5)] * 4)
    assert curriculum.open == 2
    curriculum.note([(1, 1.0)] * 2)
    assert curriculum.open == 3, "of the last four: 0.5, 0.5, 1, 1"
    curriculum.note([(2, 0.0)] * 20 + [(1, 0.0)] * 20)
    assert curriculum.open == 3, "levels stay open"


def test_levels_that_are_learnt_or_too_hard_are_drawn_seldom() -> None:
    curriculum = make(raise_at=0.5, low=0.1, high=0.9, outside=0.25)
    curriculum.note([(0, 0.8)] * 4)
    assert curriculum.shares() == [0.5, 0.5, 0.0], "useful, and not known yet"
    curriculum.note([(0, 1.0)] * 4 + [(1, 0.6)] * 4)
    assert curriculum.shares() == pytest.approx([0.25 / 2.25, 1 / 2.25, 1 / 2.25])
    curriculum.note([(2, 0.0)] * 4)
    assert curriculum.shares() == pytest.approx([0.25 / 1.5, 1 / 1.5, 0.25 / 1.5]), "back to the level before it"
    curriculum.note([(1, 1.0)] * 4)
    assert curriculum.shares() == pytest.approx([1 / 3] * 3), "nothing is useful: all alike"


def test_draws_follow_the_shares_and_the_groups_own_seed() -> None:
    curriculum = make(raise_at=0.5, outside=0.25)
    curriculum.note([(0, 1.0)] * 4)
    drawn = Counter(curriculum.draw(3, 0, group) for group in range(2000))
    assert drawn[0] / 2000 == pytest.approx(0.2, abs=0.04) and drawn[1] / 2000 == pytest.approx(0.8, abs=0.04)
    one = [curriculum.draw(3, 0, group) for group in range(100)]
    assert one == [curriculum.draw(3, 0, group) for group in range(100)]
    assert one != [curriculum.draw(4, 0, group) for group in range(100)]
    assert one != [curriculum.draw(3, 1, group) for group in range(100)]


def test_the_state_survives_json_to_the_last_bit() -> None:
    curriculum = make(raise_at=0.3)
    curriculum.note([(0, 1 / 3), (0, 0.1 + 0.2), (0, 2 / 3), (0, 1 / 7), (1, 1 / 9)])
    again = make(raise_at=0.3)
    again.restore(json.loads(json.dumps(curriculum.state())))
    assert again.state() == curriculum.state() and again.open == 2
    assert again.shares() == curriculum.shares()
    with pytest.raises(ValueError, match=r"levels: 2 here, but the checkpoint's run had 3"):
        make(levels=2).restore(curriculum.state())


def test_what_is_logged() -> None:
    curriculum = make()
    curriculum.note([(0, 0.5), (0, 1.0)])
    found = curriculum.metrics([(0, 0.5), (0, 1.0)])
    assert found["levels_open"] == 1 and found["level_1_groups"] == 2 and found["level_1_success"] == 0.75
    assert found["level_2_groups"] == 0 and math.isnan(found["level_2_success"])
