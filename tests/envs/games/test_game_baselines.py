"""Exact results against hand-computed cases and theory; shipped values are the computed ones."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from ragen_envs.games import TextGame, game_names, make_game, make_text_game
from ragen_envs.games.baselines import (
    BEST,
    MATCHES,
    compute_matches,
    game_baselines,
    settings_key,
    shipped_matches,
    table,
)
from ragen_envs.games.certify import CLAUSES
from ragen_envs.games.exact import Result, best_reply, expected
from ragen_envs.games.kuhn_poker import CARDS, KuhnPoker
from ragen_envs.games.play import main
from ragen_envs.games.players import (
    _ORDERS,
    PLAYERS,
    Chances,
    choose,
    kuhn_equilibrium,
    minimax,
    tactician,
    tit_for_tat,
    uniform,
)
from ragen_envs.reply import format_reply
from ragen_envs.splits import Split
from tests.envs.games.installed import installed_games

A, B = "player_0", "player_1"
PAGE = Path(__file__).parents[3] / "docs" / "games.md"


def started(name: str, line: str = "") -> TextGame:
    game = make_game(name)
    game.reset(0, Split.TRAIN, 0)
    for action in line.split():
        game.play({game.to_move[0]: action})
    return game


def test_random_kuhn_poker_by_hand() -> None:
    # Cards are exchangeable, so showdowns are worth 0; of the folds, Bet-Fold (1/4) pays the first seat 1 and
    # Check-Bet-Fold (1/8) costs it 1.
    result = expected(KuhnPoker().starts(), A, {A: uniform, B: uniform})
    assert result.returned == Fraction(1, 8)
    # Wins: Bet-Fold (4/16), and half of the showdowns (10/16 of all games).
    assert (result.win, result.draw, result.loss) == (Fraction(9, 16), Fraction(0), Fraction(7, 16))


def test_kuhn_poker_is_worth_minus_one_eighteenth_to_the_first_seat() -> None:
    """Neither seat can do better against the equilibrium: that is the value of the game, whoever plays it."""
    deals, players = KuhnPoker().starts(), {A: kuhn_equilibrium, B: kuhn_equilibrium}
    assert expected(deals, A, players).returned == Fraction(-1, 18)
    assert best_reply(deals, A, players).returned == Fraction(-1, 18)
    assert best_reply(deals, B, players).returned == Fraction(1, 18)


@pytest.mark.parametrize("seat", [A, B])
def test_no_exchange_of_two_cells_makes_the_blind_players_order_better(seat: str) -> None:
    def wins(order: list[str]) -> Fraction:
        def blind(game: TextGame, seat: str) -> Chances:
            return {next(cell for cell in order if cell in game.legal_actions(seat)): Fraction(1)}

        return expected(make_game("tic_tac_toe").starts(), seat, {A: uniform, B: uniform} | {seat: blind}).win

    best = _ORDERS[(A, B).index(seat)].split()
    assert round(float(wins(best)), 4) == {A: 0.8958, B: 0.6095}[seat]
    for i, j in combinations(range(9), 2):
        other = list(best)
        other[i], other[j] = other[j], other[i]
        assert wins(other) <= wins(best)


@pytest.mark.parametrize("seat", [A, B])
def test_the_best_reply_in_kuhn_poker_is_the_best_of_all_pure_strategies(seat: str) -> None:
    """All 2⁶ ways to answer (card, betting), each played out; none may know the other's card."""
    bettings = [(), ("Check", "Bet")] if seat == A else [("Check",), ("Bet",)]
    situations = list(product(CARDS, bettings))
    values = []
    for answers in product((0, 1), repeat=len(situations)):
        plan = dict(zip(situations, answers, strict=True))

        def strategy(game: TextGame, seat: str, plan: dict[tuple[str, tuple[str, ...]], int] = plan) -> Chances:
            assert isinstance(game, KuhnPoker)
            bold = plan[game.deal[game.seats.index(seat)], game.betting]
            return {game.legal_actions(seat)[bold]: Fraction(1)}

        players = {A: uniform, B: uniform} | {seat: strategy}
        values.append(expected(KuhnPoker().starts(), seat, players).returned)
    assert best_reply(KuhnPoker().starts(), seat, {A: uniform, B: uniform}).returned == max(values)


def test_sampled_games_agree_with_exact_results() -> None:
    rng, games, returns = np.random.default_rng(0), 4_000, 0.0
    for number in range(games):
        game = make_game("kuhn_poker")
        game.reset(number, Split.TEST, 0)
        while game.to_move:
            (seat,) = game.to_move
            returns += game.play({seat: choose((kuhn_equilibrium if seat == A else uniform)(game, seat), rng)})[A]
    exact = expected(KuhnPoker().starts(), A, {A: kuhn_equilibrium, B: uniform}).returned
    assert returns / games == pytest.approx(float(exact), abs=4 * 1.4 / games**0.5)


def test_two_moves_before_the_end_of_a_board_by_hand() -> None:
    """B1 and B3 are free, O moves: after B1, X completes column 3 with B3; after B3 the board is a draw."""
    game = started("tic_tac_toe", "A1 B2 C3 A2 C2 C1 A3")
    random = expected([game], A, {A: uniform, B: uniform})
    half = Fraction(1, 2)
    assert random == Result(returned=half, win=half, draw=half, loss=Fraction(0), success=half)
    assert best_reply([game], B, {A: uniform}).draw == 1


def test_scripted_board_players_win_block_and_never_lose() -> None:
    assert tactician(started("tic_tac_toe", "A1 B1 A2 B2"), A) == {"A3": 1}  # wins rather than blocks
    assert tactician(started("tic_tac_toe", "A1 C3 A2"), B) == {"A3": 1}  # blocks
    assert tactician(started("connect_four", "1 7 1 7 1"), B) == {"1": 1}
    assert set(tactician(started("connect_four"), A)) == set("1234567")
    assert minimax(started("tic_tac_toe", "A1"), B) == {"B2": 1}  # a corner is answered by the centre
    # Each of these threatens a row, and after O's forced reply X has two threats at once.
    assert set(minimax(started("tic_tac_toe", "A1 A2"), A)) == {"B1", "B2", "C1"}


def test_best_replies_in_the_prisoners_dilemma() -> None:
    game = started("prisoners_dilemma")
    assert best_reply([game], A, {B: uniform}).returned == 5 * 3  # to defect always: (5 + 1) / 2 a round
    # Against tit for tat: cooperate, and defect in the last round, where it cannot answer.
    assert best_reply([game], A, {B: tit_for_tat}).returned == 4 * 3 + 5
    assert expected([game], A, {A: tit_for_tat, B: tit_for_tat}).success == 1


def test_shipped_values_hold_for_all_games_and_both_seats() -> None:
    shipped = shipped_matches()
    assert {json.loads(key)["game"] for key in shipped} == set(MATCHES) == set(game_names())
    for name in installed_games():
        found = [(match.player, match.opponent, match.seat) for match in shipped[settings_key(name)]]
        assert found == [(*pair, seat) for pair in MATCHES[name] for seat in (A, B)]
        for match in shipped[settings_key(name)]:
            assert match.player == BEST or match.player in PLAYERS
            assert match.win + match.draw + match.loss == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_holdem", "prisoners_dilemma", "rock_paper_scissors"])
def test_shipped_values_are_the_computed_ones(name: str) -> None:
    assert shipped_matches()[settings_key(name)] == compute_matches(settings_key(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["tic_tac_toe", "connect_four", "frozen_lake_pair"]
    + [name for name in ("chess", "bargaining", "negotiation", "hanabi") if name in installed_games()],
)
def test_shipped_values_of_larger_games_are_the_computed_ones(name: str) -> None:
    assert shipped_matches()[settings_key(name)] == compute_matches(settings_key(name))


def test_tic_tac_toe_has_the_known_rates() -> None:
    """Random games: 131 184 of the 255 168 lines are X's wins, but shorter lines are likelier: 58.5 / 28.8 / 12.7 %."""
    random_first, _, minimax_first, minimax_second, _, _, best_first, *_ = game_baselines("tic_tac_toe")
    assert (random_first.win, random_first.loss, random_first.draw) == (0.5849, 0.2881, 0.127)
    assert minimax_first.loss == minimax_second.loss == best_first.loss == 0
    assert best_first.win == round(191 / 192, 4)
    assert [match.draw for match in game_baselines("tic_tac_toe")[-2:]] == [1, 1]  # nobody beats minimax


def test_other_settings_are_computed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (first, *_) = game_baselines("prisoners_dilemma", {"rounds": 2})
    assert first.returned == 2 * 2.25 and len(list(tmp_path.rglob("*.json"))) == 1
    with pytest.raises(ValueError, match="has no setting 'round'"):
        game_baselines("prisoners_dilemma", {"round": 2})


@pytest.mark.parametrize("name", installed_games())
def test_the_page_holds_the_tables(name: str) -> None:
    assert table(name) in PAGE.read_text(encoding="utf-8")


def test_the_page_shows_what_seats_are_told() -> None:
    page = PAGE.read_text(encoding="utf-8")
    board = make_text_game("tic_tac_toe")
    board.reset(seed=0)
    board.step({A: format_reply(["B2"], "")})
    poker = make_text_game("kuhn_poker")
    poker.reset(seed=1)
    poker.step({A: format_reply(["Check"], "")})
    for env in (board, poker):
        assert f"```text\n{env.observe(B)}\n```" in page
    assert f"The check knows {len(CLAUSES)} clauses" in page


def test_a_game_can_be_played_in_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = iter(["peek", "check", "call", "fold"])
    monkeypatch.setattr("builtins.input", lambda _: next(replies))
    main(["kuhn_poker", "--seat", "1", "--opponent", "kuhn_equilibrium", "--seed", "1"])
    out = capsys.readouterr().out
    assert out.startswith("Kuhn poker:") and "Your card: Jack" in out
    assert out.splitlines()[-1] in ("win, 1 in all", "loss, -1 in all", "win, 2 in all", "loss, -2 in all")
