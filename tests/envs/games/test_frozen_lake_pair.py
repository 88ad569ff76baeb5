"""FrozenLake for two: turns, blocking, shared ends, and the scripted pair that always gets there."""

from __future__ import annotations

import numpy as np
import pytest

from ragen_envs.frozen_lake.lake import Lake
from ragen_envs.games import Outcome, make_game
from ragen_envs.games.frozen_lake_pair import FrozenLakePair
from ragen_envs.games.players import PLAYERS, choose
from ragen_envs.splits import Split

A, B = "player_0", "player_1"


def started(max_moves: int = 8) -> FrozenLakePair:
    """Start of A at 0 0, of B at 0 1, a hole at 1 0, the goal at 1 2."""
    game = make_game("frozen_lake_pair", size=3, max_moves=max_moves)
    assert isinstance(game, FrozenLakePair)
    game.reset(0, Split.TRAIN, 0)
    game.lake = Lake(3, (0, 0), (1, 2), ((1, 0),))
    game.cells = ((0, 0), (0, 1))
    return game


def play(game: FrozenLakePair, line: str) -> dict[str, float]:
    for action in line.split():
        rewards = game.play({game.to_move[0]: action})
    return rewards


def test_both_win_when_both_stand_on_the_goal_and_who_arrived_waits() -> None:
    game = started()
    assert play(game, "Up Down") == {A: 0.0, B: 0.0}
    play(game, "Right Right")
    assert game.cells == ((0, 1), (1, 2)) and list(game.to_move) == [A]
    play(game, "Down")
    assert list(game.to_move) == [A] and game.outcome(A) is game.outcome(B) is None
    assert play(game, "Right") == {A: 1.0, B: 1.0}
    assert game.outcome(A) is game.outcome(B) is Outcome.WIN and game.success(A) and not game.to_move


def test_players_block_each_other() -> None:
    game = started()
    play(game, "Right")
    assert game.cells == ((0, 0), (0, 1)) and game.to_move == (B,)
    assert "Other: Right" in game.observe(B)


def test_a_hole_ends_it_for_both() -> None:
    game = started()
    assert play(game, "Down") == {A: 0.0, B: 0.0}
    assert game.outcome(A) is game.outcome(B) is Outcome.LOSS and game.to_move == ()


def test_moves_run_out() -> None:
    game = started(max_moves=1)
    play(game, "Up")
    assert game.outcome(A) is Outcome.LOSS and game.to_move == ()


def test_each_seat_sees_itself_as_p() -> None:
    game = started()
    assert game.observe(A) == "PQ_\nO_G\n___\nYou 0 0\nOther 0 1\nGoal 1 2\nMoves left: you 8, other 8"
    assert game.observe(B).startswith("QP_\nO_G\n___\nYou 0 1\nOther 0 0")


def test_two_pathfinders_always_arrive() -> None:
    game = make_game("frozen_lake_pair", size=5, p_frozen=0.75, max_moves=20)
    for seed in range(200):
        game.reset(seed, Split.TRAIN, 0)
        rng = np.random.default_rng(seed)
        while game.to_move:
            (seat,) = game.to_move
            game.play({seat: choose(PLAYERS["pathfinder"](game, seat), rng)})
        assert game.success(A) and game.success(B)


def test_maps_are_split_by_content_and_bad_settings_refused() -> None:
    game = make_game("frozen_lake_pair")
    keys: dict[Split, set[str]] = {split: set() for split in Split}
    for split in Split:
        for seed in range(50):
            game.reset(seed, split, 0)
            keys[split].add(game.instance_key)
    assert not keys[Split.TRAIN] & keys[Split.TEST] and len(keys[Split.TRAIN]) > 40
    for setting, message in (("size", "size must be ≥ 2"), ("max_moves", "≥ 1"), ("p_frozen", r"in \(0, 1\]")):
        with pytest.raises(ValueError, match=message):
            make_game("frozen_lake_pair", **{setting: 0})
