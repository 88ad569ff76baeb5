"""Chess as text: mates, draws, castling and promotion, the two notations, openings."""

from __future__ import annotations

import pytest

from ragen_envs.games import Outcome, make_game
from ragen_envs.games.chess import Chess
from ragen_envs.games.players import PLAYERS
from ragen_envs.splits import Split

pytest.importorskip("chess", reason="NOT TESTED: chess is not installed (the extra 'games')")
A, B = "player_0", "player_1"


def started(start: str | None = None, line: str = "", max_moves: int = 200) -> Chess:
    game = make_game("chess", start=start, max_moves=max_moves)
    assert isinstance(game, Chess)
    game.reset(0, Split.TRAIN, 0)
    for move in line.split():
        game.play({game.to_move[0]: move})
    return game


def test_fools_mate() -> None:
    game = started(line="f2f3 e7e5 g2g4")
    assert game.play({B: "d8h4"}) == {A: -1.0, B: 1.0}
    assert (game.outcome(A), game.outcome(B)) == (Outcome.LOSS, Outcome.WIN)
    assert game.to_move == () and game.legal_actions(A) == [] and "White is in check" in game.observe(A)


def test_what_black_is_told_after_the_first_move() -> None:
    assert started(line="e2e4").observe(B) == (
        "You are Black\n"
        "8 r n b q k b n r\n7 p p p p p p p p\n6 . . . . . . . .\n5 . . . . . . . .\n"
        "4 . . . . P . . .\n3 . . . . . . . .\n2 P P P P . P P P\n1 R N B Q K B N R\n  a b c d e f g h\n"
        "b KQkq -\nWhite played e2e4"
    )


@pytest.mark.parametrize(
    ("start", "line", "moves"),
    [
        ("7k/5Q2/8/6K1/8/8/8/8 w - - 0 1", "g5g6", 200),  # stalemate
        (None, "g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1 f6g8", 200),  # the start for the third time
        ("8/8/8/4k3/8/3K4/4r3/8 w - - 0 1", "d3e2", 200),  # two kings
        ("8/8/8/4k3/8/3K4/4P3/8 w - - 99 80", "d3c3", 200),  # fifty moves without a pawn's
        (None, "e2e4 e7e5", 2),
    ],
)
def test_draws(start: str | None, line: str, moves: int) -> None:
    *before, last = line.split()
    game = started(start, " ".join(before), moves)
    assert game.outcome(A) is None
    assert game.play({game.to_move[0]: last}) == {A: 0.0, B: 0.0}
    assert game.outcome(A) is game.outcome(B) is Outcome.DRAW and game.to_move == ()


def test_both_notations_are_understood_and_name_the_same_move() -> None:
    game = started("r3k2r/1P6/8/8/8/8/8/R3K2R w KQkq - 0 1")
    for text, move in {"O-O": "e1g1", "E1G1": "e1g1", "b8=Q+": "b7b8q", "b7b8N": "b7b8n", "bxa8=R+": "b7a8r"}.items():
        assert game.parse_action(A, text) == move
    for text in ("e2e4", "Nf3", "", "O-O-O-O", "e9", "--", "0000", "b7b8"):
        assert game.parse_action(A, text) is None
    assert game.parse_action(B, "O-O") is None  # not its turn
    # Only the case tells a bishop's move from a pawn's.
    both = started("7k/8/8/8/2n5/1P1B4/8/K7 w - - 0 1")
    assert (both.parse_action(A, "Bxc4"), both.parse_action(A, "bxc4")) == ("d3c4", "b3c4")


def test_openings_are_split_by_content() -> None:
    game = make_game("chess", opening_moves=4)
    keys: dict[Split, set[str]] = {}
    for split in Split:
        keys[split] = set()
        for seed in range(30):
            game.reset(seed, split, 0)
            keys[split].add(game.instance_key)
            assert len(game.instance_key.split()) == 4 and game.to_move == (A,)
    assert not keys[Split.TRAIN] & keys[Split.VAL] and not keys[Split.TRAIN] & keys[Split.TEST]


def test_the_greedy_player_mates_takes_and_does_not_give_away() -> None:
    assert PLAYERS["greedy_chess"](started(line="f2f3 e7e5 g2g4"), B) == {"d8h4": 1}
    assert PLAYERS["greedy_chess"](started("7k/8/8/3q4/4P3/8/8/K7 w - - 0 1"), A) == {"e4d5": 1}
    # The queen could take a pawn that a pawn defends.
    assert "d1d5" not in PLAYERS["greedy_chess"](started("7k/8/2p5/3p4/8/8/8/K2Q4 w - - 0 1"), A)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="start must be a position in Forsyth-Edwards notation, got 'e4'"):
        make_game("chess", start="e4")
    with pytest.raises(ValueError, match="start must be a position that can be and is not over"):
        make_game("chess", start="8/8/8/4k3/8/3K4/8/8 w - - 0 1")
    with pytest.raises(ValueError, match="max_moves must be ≥ 1, got 0"):
        make_game("chess", max_moves=0)
    with pytest.raises(ValueError, match="opening_moves must be ≥ 0, got -1"):
        make_game("chess", opening_moves=-1)
