"""Rules of the games against lines of play written down by hand."""

from __future__ import annotations

import gymnasium as gym
import pytest

from ragen_envs.games import Outcome, TextGame, make_game
from ragen_envs.games.kuhn_poker import DEALS, KuhnPoker
from ragen_envs.games.leduc_holdem import LeducHoldem
from ragen_envs.splits import Split

A, B = "player_0", "player_1"


def started(name: str, **settings: object) -> TextGame:
    game = make_game(name, **settings)
    game.reset(0, Split.TRAIN, 0)
    return game


def play(game: TextGame, line: str) -> dict[str, float]:
    """Plays alternating moves → the returns."""
    returns = {A: 0.0, B: 0.0}
    for action in line.split():
        for seat, reward in game.play({game.to_move[0]: action}).items():
            returns[seat] += reward
    return returns


@pytest.mark.parametrize(
    ("name", "line", "outcome"),
    [
        ("tic_tac_toe", "A1 B1 A2 B2 A3", Outcome.WIN),  # a row
        ("tic_tac_toe", "A1 A2 B1 B2 C3 C2", Outcome.LOSS),  # a column
        ("tic_tac_toe", "A3 A1 B2 A2 C1", Outcome.WIN),  # a diagonal, in the last move's middle too
        ("tic_tac_toe", "A1 A2 C3 C2 B2", Outcome.WIN),
        ("tic_tac_toe", "A1 B2 C3 A2 C2 C1 A3 B3 B1", Outcome.DRAW),
        ("tic_tac_toe", "A1 A2 A3 B2 B1 B3 C2 C1 C3", Outcome.DRAW),
        ("connect_four", "4 3 4 3 4 3 4", Outcome.WIN),  # four upwards
        ("connect_four", "1 2 1 3 1 4 7 5", Outcome.LOSS),  # four along the bottom
        ("connect_four", "1 2 2 3 3 4 3 4 4 6 4", Outcome.WIN),  # a rising diagonal
        ("connect_four", "7 6 6 5 5 4 5 4 4 2 4", Outcome.WIN),  # a falling one
        ("connect_four", "1 1 2 2 4 4 3", Outcome.WIN),  # the gap is filled last
    ],
)
def test_lines_on_boards_end_as_they_should(name: str, line: str, outcome: Outcome) -> None:
    game = started(name)
    *before, last = line.split()
    assert play(game, " ".join(before)) == {A: 0.0, B: 0.0}
    assert game.to_move
    returns = play(game, last)
    opposite = {Outcome.WIN: Outcome.LOSS, Outcome.LOSS: Outcome.WIN, Outcome.DRAW: Outcome.DRAW}
    assert (game.outcome(A), game.outcome(B)) == (outcome, opposite[outcome])
    worth = {Outcome.WIN: 1.0, Outcome.LOSS: -1.0, Outcome.DRAW: 0.0}[outcome]
    assert returns == {A: worth, B: -worth}
    assert game.to_move == () and game.legal_actions(A) == game.legal_actions(B) == []
    assert (game.success(A), game.success(B)) == (outcome is Outcome.WIN, outcome is Outcome.LOSS)


def test_a_row_does_not_go_around_the_edge() -> None:
    game = started("connect_four")
    play(game, "5 1 6 1 7 2")  # X at the right end of the bottom row
    play(game, "1 2")  # X on the left, one higher
    assert game.outcome(A) is None


def test_boards_are_told_with_the_own_mark_and_the_others_last_move() -> None:
    game = started("tic_tac_toe")
    play(game, "B2")
    assert game.observe(B) == "You are O\n  1 2 3\nA . . .\nB . X .\nC . . .\nX played B2"
    assert game.observe(A) == "You are X\n  1 2 3\nA . . .\nB . X .\nC . . ."


def test_a_look_at_tic_tac_toe_names_the_cells_and_what_would_make_a_row() -> None:
    game = started("tic_tac_toe")
    assert game.describe_for(A) == "mine none, theirs none, win none, block none"
    play(game, "B2 A1 A3 C1")
    # C1 closes the diagonal to X; X stops O's column with B1, and wins nowhere yet: A3, B2 and O's C1.
    assert game.describe_for(A) == "mine A3 B2, theirs A1 C1, win none, block B1"
    play(game, "B3")
    assert game.describe_for(B) == "mine A1 C1, theirs A3 B2 B3, win B1, block B1 C3"
    assert [game.describe_move(B, a) for a in ("B1", "C3", "A2")] == ["win B1", "block C3", "play A2"]


def test_a_full_column_is_not_legal() -> None:
    game = started("connect_four")
    play(game, "1 1 1 1 1 1")
    assert game.legal_actions(A) == ["2", "3", "4", "5", "6", "7"]
    assert game.parse_action(A, "1") is None
    with pytest.raises(ValueError, match="'1' is not legal for player_0; legal: 2, 3"):
        game.play({A: "1"})


def test_openings_are_split_by_content_and_leave_the_first_seat_or_the_second_to_move() -> None:
    seen: dict[Split, set[str]] = {}
    game = make_game("tic_tac_toe", opening_moves=3)
    for split in Split:
        keys = set()
        for seed in range(200):
            game.reset(seed, split, 0)
            keys.add(game.instance_key)
            assert game.to_move == (B,) and len(game.legal_actions(B)) == 6
        seen[split] = keys
    # There are 38 in all, turned and mirrored boards counted once.
    assert 30 < sum(len(keys) for keys in seen.values()) <= 38
    assert all(len(keys) > 4 for keys in seen.values())
    assert not seen[Split.TRAIN] & seen[Split.VAL] and not seen[Split.TRAIN] & seen[Split.TEST]


@pytest.mark.parametrize(
    ("deal", "line", "chips"),
    [
        (("King", "Jack"), "Check Check", 1),
        (("Jack", "Queen"), "Check Check", -1),
        (("Jack", "King"), "Bet Fold", 1),
        (("Queen", "Jack"), "Bet Call", 2),
        (("Queen", "King"), "Bet Call", -2),
        (("King", "Jack"), "Check Bet Fold", -1),
        (("King", "Queen"), "Check Bet Call", 2),
        (("Jack", "Queen"), "Check Bet Call", -2),
    ],
)
def test_kuhn_poker_pays(deal: tuple[str, str], line: str, chips: float) -> None:
    game = KuhnPoker()
    game.start(deal)
    assert play(game, line) == {A: chips, B: -chips}
    assert game.outcome(A) is (Outcome.WIN if chips > 0 else Outcome.LOSS)
    assert game.outcome(B) is (Outcome.LOSS if chips > 0 else Outcome.WIN)


def test_kuhn_deals_are_uniform_over_seeds_and_the_same_in_every_split() -> None:
    game = KuhnPoker()
    deals = []
    for seed in range(1_200):
        game.reset(seed, Split.TRAIN, 0)
        deals.append(game.deal)
    assert {deal: deals.count(deal) for deal in DEALS} == pytest.approx(dict.fromkeys(DEALS, 200), abs=45)
    for split in Split:
        game.reset(5, split, 0)
        assert game.deal == deals[5]


@pytest.mark.parametrize(
    ("cards", "line", "chips"),
    [
        ("Jack King Jack", "Check Check Check Check", 1),  # a pair beats the higher card
        ("Jack King Queen", "Check Check Check Check", -1),
        ("King King Queen", "Bet Call Bet Call", 0),  # equal cards share
        ("King Jack Queen", "Bet Fold", 1),
        ("King Jack Queen", "Check Bet Fold", -1),
        ("Queen King King", "Bet Raise Fold", -3),  # 1 + 2
        ("Queen King King", "Bet Raise Call Check Check", -5),  # 1 + 4
        ("Queen King Queen", "Check Bet Call Bet Raise Fold", -7),  # 1 + 2 + 4
        ("Queen King Queen", "Check Bet Raise Call Check Bet Raise Call", 13),
    ],
)
def test_leduc_holdem_pays(cards: str, line: str, chips: float) -> None:
    game = LeducHoldem()
    first, second, public = cards.split()
    game.start((first, second), public)
    assert play(game, line) == {A: chips, B: -chips}
    outcome = Outcome.DRAW if chips == 0 else Outcome.WIN if chips > 0 else Outcome.LOSS
    assert game.outcome(A) is outcome and game.to_move == ()


def test_leduc_holdem_tells_the_own_card_and_the_public_one_once_it_is_turned() -> None:
    game = LeducHoldem()
    game.start(("Jack", "King"), "Queen")
    play(game, "Check Bet")
    assert game.legal_actions(A) == ["Fold", "Call", "Raise"]
    play(game, "Raise")
    assert game.legal_actions(B) == ["Fold", "Call"]
    before = "You play second\nYour card: King\nOther: Check\nYou: Bet\nOther: Raise\n"
    assert game.observe(B) == f"{before}Chips paid: you 3, other 5"
    play(game, "Call Bet")
    assert game.observe(B) == f"{before}You: Call\nPublic card: Queen\nOther: Bet\nChips paid: you 5, other 9"
    with pytest.raises(ValueError, match="the deck is"):
        game.start(("King", "King"), "King")


def test_leduc_seeds_deal_and_outcome_seeds_turn() -> None:
    game = LeducHoldem()
    turned: dict[tuple[str, ...], set[str]] = {}
    for seed in range(100):
        for outcome_seed in range(10):
            game.reset(seed, Split.TRAIN, outcome_seed)
            turned.setdefault(game.deal, set()).add(game.public)
    assert len(turned) == 9  # all pairs of names
    assert turned["Jack", "Jack"] == {"Queen", "King"} and turned["Jack", "King"] == {"Jack", "Queen", "King"}


@pytest.mark.parametrize(
    ("mine", "others", "reward"),
    [("Rock", "Scissors", 1), ("Scissors", "Paper", 1), ("Paper", "Rock", 1), ("Rock", "Rock", 0)],
)
def test_rock_paper_scissors_pays(mine: str, others: str, reward: float) -> None:
    game = started("rock_paper_scissors", rounds=1)
    assert game.play({A: mine, B: others}) == {A: reward, B: -reward}
    assert game.outcome(A) is (Outcome.WIN if reward else Outcome.DRAW)
    game = started("rock_paper_scissors", rounds=1)
    assert game.play({A: others, B: mine}) == {A: -reward, B: reward}


def test_rock_paper_scissors_is_won_by_the_total() -> None:
    game = started("rock_paper_scissors", rounds=3)
    for mine, others in (("Rock", "Scissors"), ("Rock", "Scissors"), ("Rock", "Paper")):
        assert game.outcome(A) is None
        game.play({A: mine, B: others})
    assert (game.outcome(A), game.outcome(B)) == (Outcome.WIN, Outcome.LOSS)
    assert game.observe(B).splitlines()[-1] == "Total: you -1, other 1"


def test_prisoners_dilemma_pays_and_success_is_the_level_of_cooperation() -> None:
    game = started("prisoners_dilemma", rounds=4)
    assert game.play({A: "Cooperate", B: "Cooperate"}) == {A: 3, B: 3}
    assert game.play({A: "Defect", B: "Cooperate"}) == {A: 5, B: 0}
    assert game.play({A: "Cooperate", B: "Defect"}) == {A: 0, B: 5}
    assert game.play({A: "Defect", B: "Defect"}) == {A: 1, B: 1}
    assert game.outcome(A) is game.outcome(B) is Outcome.DRAW
    assert not game.success(A)  # 9 < 4 · 3
    game = started("prisoners_dilemma", rounds=1)
    game.play({A: "Cooperate", B: "Cooperate"})
    assert game.success(A) and game.success(B) and game.outcome(A) is Outcome.DRAW


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="temptation > reward > punishment > sucker"):
        make_game("prisoners_dilemma", sucker=2.0)
    with pytest.raises(ValueError, match="rounds must be ≥ 1, got 0"):
        make_game("rock_paper_scissors", rounds=0)
    with pytest.raises(ValueError, match="opening_moves must be 0…8, got 9"):
        make_game("tic_tac_toe", opening_moves=9)
    with pytest.raises(ValueError, match="did you mean 'kuhn_poker'"):
        make_game("kuhn_pokr")
    with pytest.raises(ValueError, match="kuhn_poker has no setting 'cards'; allowed: none"):
        make_game("kuhn_poker", cards=4)


def test_moves_out_of_turn_are_refused() -> None:
    game = started("tic_tac_toe")
    with pytest.raises(ValueError, match="to move: player_0; got moves of player_1"):
        game.play({B: "A1"})
    game = started("rock_paper_scissors")
    with pytest.raises(ValueError, match="to move: player_0, player_1; got moves of player_0"):
        game.play({A: "Rock"})
    with pytest.raises(gym.error.ResetNeeded):
        make_game("kuhn_poker").play({A: "Bet"})
