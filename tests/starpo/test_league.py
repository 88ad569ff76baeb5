"""The league: who is in it, and when the policy joins."""

from __future__ import annotations

import pytest

from rllib_ragen.config.schema import MultiAgentSection
from rllib_ragen.starpo.matchmaking.league import League, score_of
from rllib_ragen.types import Trajectory


def games(*outcomes: str) -> list[Trajectory]:
    return [Trajectory("g", 0, 0, outcome=outcome) for outcome in outcomes]


def test_a_score_counts_draws_as_halves_and_leaves_out_games_without_an_outcome() -> None:
    assert score_of(games("win", "draw", "loss", "loss", "")) == pytest.approx(1.5 / 4)
    assert score_of(games("", "")) is None


def test_the_policy_joins_once_it_beats_the_league_and_takes_the_oldest_place_when_it_is_full() -> None:
    section, league = MultiAgentSection(league_win_rate=0.6), League(2)
    assert league.place_to_take(section, 1, 0.59) is None
    assert league.place_to_take(section, 1, None) is None
    assert league.place_to_take(section, 1, 0.6) == 1 and league.join(1, 1) == "league_1"
    assert league.place_to_take(section, 5, 0.9) == 0 and league.join(0, 5) == "league_0"
    assert league.joined == [5, 1]
    assert league.place_to_take(section, 6, 0.9) == 1


def test_it_joins_in_any_case_after_the_interval() -> None:
    section, league = MultiAgentSection(league_win_rate=None, league_interval=3), League(1)
    assert [league.place_to_take(section, k, 1.0) for k in (1, 2, 3)] == [None, None, 0]
    league.join(0, 3)
    assert [league.place_to_take(section, k, 0.0) for k in (4, 5, 6)] == [None, None, 0]


def test_a_frozen_opponent_is_a_league_that_nobody_joins() -> None:
    section, league = MultiAgentSection(league_win_rate=None, league_interval=0), League(1)
    assert all(league.place_to_take(section, k, 1.0) is None for k in range(1, 100))


def test_opponents_follow_from_seed_and_group_and_every_member_plays() -> None:
    league = League(3, [0, 4, 9])
    drawn = [league.opponent(1, group, 0) for group in range(60)]
    assert set(drawn) == {"league_0", "league_1", "league_2"}
    assert drawn == [League(3, [0, 4, 9]).opponent(1, group, 0) for group in range(60)]


def test_state_survives_and_a_smaller_league_refuses_it() -> None:
    league, twin = League(3, [7, 2]), League(3)
    twin.restore(league.state())
    assert twin == league
    with pytest.raises(ValueError, match="league_size=1, but the checkpoint's league has 2"):
        League(1).restore(league.state())
