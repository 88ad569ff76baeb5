"""Matches: who meets whom, conversations per seat, what is counted; the result does not depend on the batching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ragen_envs.games import TextGame, make_game, make_text_game
from ragen_envs.games.baselines import game_baselines
from ragen_envs.games.env import TextGameEnv
from ragen_envs.games.players import PLAYERS
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.conversation import Sampler
from rllib_ragen.tournament import matches
from rllib_ragen.tournament.match_session import Fixture, Record
from rllib_ragen.tournament.matches import play_all, round_robin
from rllib_ragen.tournament.standings import exploited, ratings, scripts_exploited, seat_results
from rllib_ragen.types import Sampling
from tests.envs.games.sweepstake import Sweepstake
from tests.rollout.conftest import chat, tokenizer
from tests.rollout.marked import Marked

__all__ = ["chat", "tokenizer"]

A, B = "player_0", "player_1"


def played(env: str, names: tuple[str, ...], plays: int, **limits: Any) -> tuple[TextGame, list[Record]]:
    game = make_game(env)
    fixtures = round_robin(names, game, plays, seed=0)
    return game, play_all(fixtures, {}, lambda: make_text_game(env, None, limits))


def test_every_two_meet_in_both_orders_on_the_same_instances() -> None:
    fixtures = round_robin(["x", "y", "z"], make_game("kuhn_poker"), plays=3, seed=1)
    orders = [fixture.players for fixture in fixtures]
    assert orders[::3] == [("x", "y"), ("y", "x"), ("x", "z"), ("z", "x"), ("y", "z"), ("z", "y")]
    starts = {(fixture.env_seed, fixture.outcome_seed) for fixture in fixtures}
    assert len(starts) == 3 and len({fixture.sampling_seed for fixture in fixtures}) == len(fixtures) == 18


def test_in_a_cooperative_game_each_also_plays_with_itself() -> None:
    fixtures = round_robin(["x", "y"], make_game("frozen_lake_pair"), plays=1, seed=0)
    assert [fixture.players for fixture in fixtures] == [("x", "x"), ("x", "y"), ("y", "x"), ("y", "y")]


def test_games_for_three_and_single_players_are_refused() -> None:
    with pytest.raises(ValueError, match="Sweepstake has 3 seats; matches are for two"):
        round_robin(["x", "y"], Sweepstake(), plays=1, seed=0)
    with pytest.raises(ValueError, match="matches need two players"):
        round_robin(["x"], make_game("kuhn_poker"), plays=1, seed=0)


def test_counts_and_returns_agree_with_the_exact_ones() -> None:
    game, records = played("kuhn_poker", ("kuhn_equilibrium", "uniform"), plays=500)
    exact = {(match.player, match.seat): match for match in game_baselines("kuhn_poker") if match.opponent == "uniform"}
    for one in seat_results(records, game):
        assert (one.games, one.wins + one.losses, one.draws, one.cut_off, one.valid) == (500, 500, 0, 0, 1.0)
        if one.player == "kuhn_equilibrium":
            expected = exact["kuhn_equilibrium", one.seat]
            assert one.return_mean == pytest.approx(expected.returned, abs=4 * (one.return_error or 0.0))
            assert one.wins / 500 == pytest.approx(expected.win, abs=4 * 0.5 / 500**0.5)
            assert one.return_error == pytest.approx(1.4 / 500**0.5, rel=0.2)


def test_minimax_is_rated_above_random_and_never_loses() -> None:
    game, records = played("tic_tac_toe", ("minimax", "uniform"), plays=30)
    results = seat_results(records, game)
    assert all(one.losses == 0 and one.wins > 15 for one in results if one.player == "minimax")
    found = ratings(records, game, "uniform")
    assert found["uniform"].elo == 1000 and found["minimax"].low > 1200


def test_a_script_is_exploited_exactly_and_by_its_moves_about_as_much() -> None:
    game, records = played("kuhn_poker", ("kuhn_equilibrium", "uniform"), plays=600)
    exact = scripts_exploited("kuhn_poker", PLAYERS["uniform"])
    by_moves = exploited(records, game, "kuhn_poker", "uniform")
    assert exact is not None and by_moves is not None
    assert exact.exploitability == pytest.approx(11 / 24) and (exact.seen, exact.decisions) == (12, 0)
    assert by_moves.exploitability == pytest.approx(11 / 24, abs=0.1) and by_moves.situations == 12
    assert exploited([], make_game("tic_tac_toe"), "tic_tac_toe", "uniform") is None


@pytest.mark.parametrize(("env", "other"), [("prisoners_dilemma", "tit_for_tat"), ("kuhn_poker", "kuhn_equilibrium")])
def test_the_result_does_not_depend_on_the_number_of_tables(
    env: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for tables in (1, 7, 128):
        monkeypatch.setattr(matches, "MAX_TABLES", tables)
        found.append(played(env, ("uniform", other), plays=5)[1])
    assert found[0] == found[1] == found[2]


class Mute(Marked):
    """Says nothing that is a move, and notes what it is told."""

    def __init__(self, chat: ChatFormat) -> None:
        super().__init__(chat, "hm")
        self.told: list[str] = []
        self.seeds: list[int | None] = []

    def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        super().add(key, prompt_ids, sampling)
        self.told.append(str(self.chat.tokenizer.decode(list(prompt_ids))))
        self.seeds.append(sampling.seed)


def against_mute(chat: ChatFormat, rule: str) -> tuple[Mute, Record]:
    mute, fixture = Mute(chat), Fixture(("mute", "uniform"), 0, 0, 0)
    env = make_text_game("kuhn_poker", None, {"illegal_move": rule})
    sampler = Sampler(mute, chat, Sampling(8, chat.stop_token_ids), 10_000)
    (record,) = play_all([fixture], {"mute": sampler}, lambda: env)
    return mute, record


def test_a_player_who_names_no_move_has_one_drawn_for_it_or_loses(chat: ChatFormat) -> None:
    mute, record = against_mute(chat, "penalty")
    assert all(move.action and not move.valid for move in record.moves if move.seat == A)
    assert record.returns[A] <= 2 - 0.1 * len(mute.told)
    mute, record = against_mute(chat, "forfeit")
    assert record.outcomes == {A: "loss", B: "win"} and record.returns == {A: -2.0, B: 2.0}
    assert [move.action for move in record.moves] == [""]
    mute, record = against_mute(chat, "retry")
    assert len(mute.told) == 3 and record.outcomes[A] == "loss"
    assert "Turn 1\nYou play first" in mute.told[0] and "Kuhn poker" in mute.told[0]
    assert "no legal action, try again (1 left)" in mute.told[1].removeprefix(mute.told[0])
    assert len(set(mute.seeds)) == 3 and mute.forgotten == [0]


def made(env: TextGameEnv) -> Callable[[], TextGameEnv]:
    return lambda: env


def test_who_has_no_room_for_a_reply_says_nothing_and_the_game_goes_on(chat: ChatFormat) -> None:
    fixture, found = Fixture(("mute", "tit_for_tat"), 0, 0, 0), []
    for room in (10_000, 300):
        engine = Marked(chat, "<think></think><answer>Defect</answer>")
        sampler = Sampler(engine, chat, Sampling(40, chat.stop_token_ids), room)
        env = make_text_game("prisoners_dilemma", None, {"prompt_style": "brief"})
        (record,) = play_all([fixture], {"mute": sampler}, made(env))
        assert not record.error and set(record.outcomes.values()) <= {"win", "draw", "loss"}
        found.append([move.valid for move in record.moves if move.seat == A])
    assert found[0] == [True] * 5
    assert found[1] == sorted(found[1], reverse=True) and len(found[1]) == 5 and 0 < sum(found[1]) < 5


def test_games_that_are_cut_off_count_for_nobody() -> None:
    game, records = played("tic_tac_toe", ("minimax", "uniform"), 2, max_turns=1)
    for one in seat_results(records, game):
        assert (one.games, one.cut_off, one.wins, one.draws, one.losses) == (2, 2, 0, 0, 0)
    with pytest.raises(ValueError, match="is not determined"):
        ratings(records, game, "uniform")


def test_means_and_errors_by_hand() -> None:
    games = enumerate((("win", 2.0), ("draw", 0.0), ("loss", -2.0), ("", 4.0)))
    records = [
        Record(Fixture(("x", "y"), deal, 0, 0), {A: outcome, B: ""}, {A: paid, B: 0.0}, {A: paid > 1, B: False})
        for deal, (outcome, paid) in games
    ]
    first = seat_results(records, make_game("kuhn_poker"))[0]
    assert (first.player, first.seat, first.opponent) == ("x", A, "y")
    assert (first.wins, first.draws, first.losses, first.cut_off, first.success) == (1, 1, 1, 1, 0.5)
    assert first.return_mean == 1.0 and first.return_error == pytest.approx(np.std([2, 0, -2, 4], ddof=1) / 2)


def test_games_on_one_opening_are_one_instance() -> None:
    """Returns 1, 1 on one opening and −1 on the other: means 1 and −1, error √2/√2 = 1. One opening: none is told."""

    def record(key: str, paid: float, seed: int) -> Record:
        outcomes = {A: "win" if paid > 0 else "loss", B: "loss" if paid > 0 else "win"}
        success = {A: paid > 0, B: paid < 0}
        return Record(Fixture(("x", "y"), seed, 0, 0), outcomes, {A: paid, B: -paid}, success, instance_key=key)

    game = make_game("tic_tac_toe", opening_moves=1)
    first = seat_results([record("A1", 1, 0), record("A1", 1, 1), record("B2", -1, 2)], game)[0]
    assert (first.games, first.instances, first.return_mean) == (3, 2, 0.0)
    assert first.return_error == pytest.approx(1.0)
    alone = seat_results([record("A1", 1, seed) for seed in range(9)], game)[0]
    assert (alone.games, alone.instances, alone.return_error) == (9, 1, None)


def test_the_openings_of_a_game_with_splits_are_its_instances() -> None:
    game, names = make_game("tic_tac_toe", opening_moves=2), ("minimax", "uniform")
    fixtures = round_robin(names, game, 6, seed=0)
    records = play_all(fixtures, {}, lambda: make_text_game("tic_tac_toe", {"opening_moves": 2}))
    keys = {record.instance for record in records}
    assert all(not key.startswith("seed") for key in keys) and len(keys) < 6
    _, records = played("tic_tac_toe", ("minimax", "uniform"), 6)
    assert len({record.instance for record in records}) == 6, "without openings each play is a draw of its own"
