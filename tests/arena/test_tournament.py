"""The command `tournament` without models: scripts play each other, and bad input costs one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envs.games import game_names, make_game
from envs.games.baselines import MATCHES
from envs.games.players import PLAYERS, STRONGEST
from envs.splits import Split
from rllib_ragen.tournament import main
from tests.envs.games.installed import installed_games


def test_scripts_play_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "found.json"
    words = ["--env", "kuhn_poker", "--plays", "20", "--seed", "3", "--out", str(out)]
    assert main(words) == 0
    shown, found = capsys.readouterr().out, json.loads(out.read_text())
    assert "kuhn_poker: 2 players, 40 games" in shown and str(out) in shown
    assert found["exploitability"]["uniform"]["exploitability"] == pytest.approx(11 / 24)
    assert sum(one["wins"] for one in found["results"]) == 40
    assert main([*words, "--force"]) == 0 and json.loads(out.read_text()) == found


def test_a_cooperative_game_has_scores_and_no_ratings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    assert main(["--env", "frozen_lake_pair", "--plays", "5", "--out", str(out), "--set", "env.task.size=3"]) == 0
    found = json.loads(out.read_text())
    assert found["elo"] == {} and "Elo" not in capsys.readouterr().out and found["task"] == {"size": 3}
    pairs = [one for one in found["results"] if one["player"] == one["opponent"] == "pathfinder"]
    assert all(one["success"] == 1 for one in pairs) and pairs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "poker"], "--env is 'poker'; allowed: tic_tac_toe"),
        ([], "--env is None; allowed: tic_tac_toe"),
        (["nowhere", "--env", "kuhn_poker"], "'nowhere' is no model; allowed: tiny"),
        (["--env", "kuhn_poker", "--scripts", "minmax"], "there is no player 'minmax'; allowed: uniform"),
        (["--env", "kuhn_poker", "--scripts"], "matches need two players"),
        (["--env", "kuhn_poker", "--set", "env.turns=1"], "env has no setting 'turns'; allowed: illegal_move"),
        (["--env", "kuhn_poker", "--set", "rollout.top_p=1"], "rollout has no setting 'top_p'; allowed: max_reply"),
        (["--env", "kuhn_poker", "--set", "learner.lr=1"], "--set has no setting 'learner'; allowed: env, rollout"),
        (["--env", "kuhn_poker", "--set", "env.task.cards=4"], "kuhn_poker has no setting 'cards'"),
        (["--env", "kuhn_poker", "--set", "env.illegal_move=skip"], "illegal_move must be penalty or retry or forfeit"),
        (["--env", "open_spiel", "--set", "env.task.game=kuhn_poker(players=3)"], "Kuhn Poker has 3 seats"),
    ],
)
def test_bad_input_costs_one_sentence(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--out", str(tmp_path / "found.json")]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_strongest_scripts_are_players_of_their_games() -> None:
    assert set(STRONGEST) <= set(game_names())
    for name in set(STRONGEST) & set(installed_games()):
        assert STRONGEST[name] in {player for player, _ in MATCHES[name]}
        game = make_game(name)
        game.reset(0, Split.TRAIN, 0)
        assert PLAYERS[STRONGEST[name]](game, game.to_move[0])
