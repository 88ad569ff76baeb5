"""OpenSpiel's games as text: any of them by name, and bargaining and Hanabi in words of our own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from ragen_envs.games import Outcome, TextGame, make_game, make_text_game
from ragen_envs.games.bargaining import Bargaining
from ragen_envs.games.certify import CLAUSES, check_text_game, play_randomly
from ragen_envs.games.hanabi import Hanabi
from ragen_envs.games.leduc_holdem import LeducHoldem
from ragen_envs.games.negotiation import Negotiation
from ragen_envs.games.open_spiel import OpenSpielGame
from ragen_envs.games.players import PLAYERS, choose
from ragen_envs.splits import Split

pyspiel = pytest.importorskip("pyspiel", reason="NOT TESTED: open-spiel is not installed (the extra 'games')")
A, B = "player_0", "player_1"


@pytest.mark.parametrize(
    "game",
    [
        "kuhn_poker",
        "liars_dice(numdice=2)",
        "matrix_rps",  # both at once
        "goofspiel(num_cards=4,imp_info=True)",  # both at once, with something hidden
        "tiny_hanabi",  # cooperative
        "pig(winscore=12)",  # dice between the moves
        "kuhn_poker(players=3)",
        "first_sealed_auction",  # a general sum
        "go_fish",
        "negotiation(utterance_dim=1)",  # draws its chance inside OpenSpiel
        "tarok",  # likewise, for three
    ],
)
def test_any_game_of_open_spiel_keeps_the_contract(game: str) -> None:
    assert check_text_game(lambda: make_text_game("open_spiel", {"game": game}), instances=2) == list(CLAUSES)


@pytest.mark.parametrize(("variant", "players"), [("full", 2), ("small", 4), ("very_small", 3)])
def test_hanabi_keeps_the_contract_in_all_sizes(variant: str, players: int) -> None:
    settings = {"variant": variant, "players": players}
    assert check_text_game(lambda: make_text_game("hanabi", settings), instances=1) == list(CLAUSES)


def test_rewards_and_turns_are_open_spiels() -> None:
    """The same moves in both, with the same chance: the same seats to move and the same returns."""
    rng = np.random.default_rng(0)
    for name in ("leduc_poker", "liars_dice", "goofspiel(num_cards=4)", "bargaining", "hanabi"):
        game = OpenSpielGame(name)
        for seed in range(5):
            game.reset(seed, Split.TRAIN, seed)
            returns = np.zeros(2)
            while game.to_move:
                moves = {seat: str(rng.choice(game.legal_actions(seat))) for seat in game.to_move}
                returns += list(game.play(moves).values())
            state = pyspiel.load_game(name).new_initial_state()
            actions = game._state.history()
            while actions:
                number = 2 if state.is_simultaneous_node() else 1
                state.apply_actions(actions[:2]) if number == 2 else state.apply_action(actions[0])
                actions = actions[number:]
            assert state.is_terminal() and state.returns() == pytest.approx(list(returns))


def test_our_leduc_holdem_and_open_spiels_are_one_game_to_the_text_adapter() -> None:
    """Random lines of play: their fold, call, raise are our Fold, Check/Call, Bet/Raise; the returns agree."""
    rng, names = np.random.default_rng(1), {"Fold": "Fold", "Check": "Call", "Bet": "Raise"}
    cards = ["Jack", "Jack", "Queen", "Queen", "King", "King"]
    for seed in range(60):
        theirs, ours = OpenSpielGame("leduc_poker"), LeducHoldem()
        theirs.reset(seed, Split.TRAIN, seed)
        first, second = (cards[card] for card in theirs._state.history())
        line: list[str] = []
        returns = np.zeros(2)
        while theirs.to_move:
            line.append(str(rng.choice(theirs.legal_actions(theirs.to_move[0]))))
            returns += list(theirs.play({theirs.to_move[0]: line[-1]}).values())
        dealt = [action for action in theirs._state.full_history() if action.player == pyspiel.PlayerId.CHANCE]
        public = cards[dealt[2].action] if len(dealt) > 2 else next(c for c in cards if [first, second].count(c) < 2)
        ours.start((first, second), public)
        for action in line:
            seat = ours.to_move[0]
            (ours_action,) = (a for a in ours.legal_actions(seat) if names.get(a, a) == action)
            returns -= list(ours.play({seat: ours_action}).values())
        assert not ours.to_move and np.abs(returns).max() == 0


def test_chance_before_the_first_move_is_the_instance_and_later_chance_is_the_outcome_seeds() -> None:
    game = OpenSpielGame("leduc_poker")
    turned: dict[str, set[str]] = {}
    for seed in range(4):
        for outcome_seed in range(12):
            game.reset(seed, Split.TRAIN, outcome_seed)
            key = game.instance_key
            for _ in range(2):
                game.play({game.to_move[0]: "Call"})
            turned.setdefault(key, set()).add(game.observe(A))
    assert 1 < len(turned) <= 4 and all(len(seen) > 1 for seen in turned.values())
    assert not game.has_splits and OpenSpielGame("hanabi").has_splits and OpenSpielGame("bargaining").has_splits


def test_names_that_differ_in_case_only_are_told_apart() -> None:
    game = OpenSpielGame("chess")
    game.reset(0, Split.TRAIN, 0)
    for move in ("e3", "d5", "c4", "dxc4", "b3", "h6"):
        game.play({game.to_move[0]: move})
    (white,) = game.to_move
    for move in game.legal_actions(white):
        assert game.parse_action(white, move.lower()) == game.parse_action(white, move.upper()) == move
    assert len([move for move in game.legal_actions(white) if move.lower().startswith("bxc4 (")]) == 2


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("open_spiel", {"game": "kuhn_pokr"}, "OpenSpiel cannot load 'kuhn_pokr': Unknown game 'kuhn_pokr'"),
        ("open_spiel", {"game": "hanabi(x=1)"}, "Unknown parameter 'x'"),
        ("open_spiel", {"game": "mfg_crowd_modelling"}, "mean-field game"),
        ("open_spiel", {"game": "negotiation(rng_seed=1)"}, "negotiation: leave rng_seed out"),
        ("open_spiel", {"game": "stones_and_gems"}, "draws chance between moves inside OpenSpiel"),
        ("open_spiel", {"game": "misere(game=negotiation())"}, "draws its chance inside OpenSpiel"),
        ("negotiation", {"words": 0}, "words must be 1…26, got 0"),
        ("negotiation", {"message_length": -1}, "message_length must be 0…3, got -1"),
        ("hanabi", {"variant": "tiny"}, "variant must be full or small or very_small, got 'tiny'"),
        ("hanabi", {"players": 6}, "players must be 2…5, got 6"),
        ("hanabi", {"target": 11}, "target must be 1…10, got 11"),
        ("bargaining", {"max_turns": 1}, "max_turns must be ≥ 2, got 1"),
    ],
)
def test_bad_settings_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        make_game(name, **settings)


def test_a_missing_package_is_named_with_its_extra() -> None:
    code = (
        "import sys; sys.modules['pyspiel'] = sys.modules['chess'] = None\n"
        "from ragen_envs.games import game_names, make_game\n"
        "for name in game_names():\n"
        "    try: make_game(name)\n"
        "    except ValueError as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[2] for line in said] == ["chess", "bargaining", "negotiation", "hanabi", "liars_dice"]
    assert all("pip install 'rllib-ragen[games]'" in line for line in said)


def test_an_agreement_pays_each_seat_what_its_share_is_worth_to_it() -> None:
    game = make_game("bargaining")
    assert isinstance(game, Bargaining)
    game.reset(3, Split.TRAIN, 0)
    assert (game.pool, game.values(A), game.values(B)) == ((1, 2, 3), (2, 1, 2), (0, 2, 2))
    game.play({A: "Keep 1-2-1"})
    game.play({B: "Keep 0-2-1"})
    assert game.observe(A).splitlines()[-2:] == ["You: Keep 1-2-1", "Other: Keep 0-2-1"]
    # The first seat gets 1 book (2) and 2 balls (4), the second keeps 2 hats (4) and 1 ball (2).
    assert game.play({A: "Agree"}) == {A: 6.0, B: 6.0}
    assert game.outcome(A) is game.outcome(B) is Outcome.DRAW and game.success(A) and game.success(B)
    assert game.observe(B).endswith("Other: Agree") and game.observe(A).endswith("You: Agree")


def test_bargaining_without_agreement_pays_nothing() -> None:
    game = make_game("bargaining", max_turns=2)
    game.reset(3, Split.TRAIN, 0)
    assert "Agree" not in game.legal_actions(A)
    assert game.play({A: "Keep 1-2-3"}) == game.play({B: "Keep 1-2-3"}) == {A: 0.0, B: 0.0}
    assert not game.to_move and not game.success(A) and not game.success(B)


def negotiation(seed: int, **settings: int) -> Negotiation:
    game = make_game("negotiation", **settings)
    assert isinstance(game, Negotiation)
    game.reset(seed, Split.TRAIN, 0)
    return game


@pytest.mark.parametrize("settings", [{}, {"message_length": 0}, {"message_length": 2, "words": 3}])
def test_negotiation_keeps_the_contract_with_any_messages(settings: dict[str, int]) -> None:
    assert check_text_game(lambda: make_text_game("negotiation", settings), instances=2) == list(CLAUSES)


def test_a_negotiation_pays_each_seat_what_its_share_is_worth_to_it() -> None:
    game = negotiation(3)
    assert (game.pool, game.values(A), game.values(B)) == ((0, 1, 1), (1, 8, 6), (3, 5, 1))
    game.play({A: "Keep 0-1-1"})
    assert game.to_move == (A,) and game.legal_actions(A) == ["Say A", "Say B", "Say C", "Say D", "Say E"]
    game.play({A: "Say D"})
    assert game.observe(B).splitlines()[-2:] == ["Turns: 10, 1 used", "Other: Keep 0-1-1, Say D"]
    game.play({B: "Keep 0-1-0"})
    game.play({B: "Say A"})
    # The first seat gets the ball (6), the second keeps the hat (5).
    assert game.play({A: "Agree"}) == {A: 6.0, B: 5.0}
    assert game.outcome(A) is Outcome.WIN and not game.success(A) and game.success(B)
    assert game.observe(B).endswith("You: Keep 0-1-0, Say A\nOther: Agree")


def test_a_negotiation_whose_turns_are_used_up_pays_nothing() -> None:
    game = negotiation(3, message_length=0)
    for turn in range(game.max_turns):
        assert game.play({(A, B)[turn % 2]: "Keep 0-0-0"}) == {A: 0.0, B: 0.0}
    assert not game.to_move and game.outcome(A) is Outcome.DRAW and not game.success(A)
    game.reset(3, Split.TRAIN, 0)
    assert game.forfeit((A,)) == {A: 0.0, B: 0.0} and game.outcome(A) is Outcome.LOSS


def test_our_names_in_negotiation_are_open_spiels_actions() -> None:
    """Every action of some random games: the digits of our name are those of OpenSpiel's."""
    rng = np.random.default_rng(2)
    for seed in range(8):
        game = negotiation(seed, message_length=2, words=4)
        while game.to_move:
            (seat,) = game.to_move
            for name, number in game._named_actions(seat).items():
                theirs = game._state.action_to_string(game.seats.index(seat), number)
                digits = "".join(str("ABCD".find(c)) if c in "ABCD" else c for c in name.split()[-1])
                ours = f"[{', '.join(digits.split('-'))}]" if name != game.AGREE else "Agreement"
                assert ours in theirs and ("Proposal" in theirs) == (not name.startswith("Say"))
            game.play({seat: str(rng.choice(game.legal_actions(seat)))})


def test_chance_inside_open_spiel_is_the_instances_and_no_look_ahead_changes_it() -> None:
    """The generator is OpenSpiel's game: each instance has its own, so neither other games nor copies disturb it."""
    first = negotiation(7)
    others = [negotiation(seed) for seed in range(20)]
    first.after({A: "Keep 0-0-0"})
    again = negotiation(7)
    assert (again.observe(A), again.observe(B), again.instance_key) == (
        first.observe(A),
        first.observe(B),
        first.instance_key,
    )
    assert len({game.instance_key for game in others}) == 20


def test_a_hanabi_prompt_never_tells_the_own_cards() -> None:
    """Two deals that differ in the first seat's hand only: it is told the same, the other is not."""
    games = []
    for hand in ([0, 1], [4, 7]):
        game = make_game("hanabi")
        assert isinstance(game, Hanabi)
        game.reset(0, Split.TRAIN, 0)
        state = game._game.new_initial_state()
        for card in [*hand, 2, 3]:
            state.apply_action(card)
        game._state = state
        games.append(game)
    assert games[0].observe(A) == games[1].observe(A) and games[0].observe(B) != games[1].observe(B)


def test_hanabi_loses_all_with_the_last_life() -> None:
    game = make_game("hanabi")
    returns, best = [], 0.0
    for seed in range(40):
        game.reset(seed, Split.TRAIN, 0)
        rng, total = np.random.default_rng(seed), 0.0
        while game.to_move:
            careful = total < 2
            chances = PLAYERS["hinter" if careful else "uniform"](game, game.to_move[0])
            total += game.play({game.to_move[0]: choose(chances, rng)})[A]
            best = max(best, total)
        bombed = "Lives: 0" in game.observe(A)
        assert not bombed or (total == 0 and game.outcome(A) is Outcome.LOSS)
        returns.append(total)
    assert best >= 2 and 0.0 in returns


def scores(name: str, players: tuple[str, str], games: int = 40) -> list[float]:
    """Mean return of each seat over test instances."""
    totals = np.zeros(2)
    for seed in range(games):
        game: TextGame = make_game(name)
        game.reset(seed, Split.TEST, seed)
        rng = np.random.default_rng(seed)
        while game.to_move:
            (seat,) = game.to_move
            player = PLAYERS[players[game.seats.index(seat)]]
            totals += list(game.play({seat: choose(player(game, seat), rng)}).values())
    return list(totals / games)


def test_scripted_players_of_bargaining_and_hanabi_beat_random_ones() -> None:
    assert min(scores("hanabi", ("hinter", "hinter"))) > 4 > 1 > max(scores("hanabi", ("uniform", "uniform")))
    first, second = scores("bargaining", ("haggler", "uniform"))
    assert first > 6 > second
    assert min(scores("bargaining", ("haggler", "haggler"))) > 5


def test_random_play_through_replies_ends() -> None:
    env = make_text_game("hanabi", {"variant": "full", "players": 3})
    env.reset(seed=0)
    assert play_randomly(env, np.random.default_rng(0)) and not env.agents
