"""The command `tournament` without models: scripts play each other, and bad input costs one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rllib_ragen.models.folder import model_folder
from rllib_ragen.tournament.__main__ import main


def test_scripts_play_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "found.json"
    words = ["--env", "KuhnPoker", "--plays", "20", "--seed", "3", "--out", str(out)]
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


def test_a_model_that_is_called_as_a_script_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(model_folder("tiny"), tmp_path / "uniform")
    assert main([str(folder), "--env", "kuhn_poker", "--out", str(tmp_path / "found.json")]) == 2
    assert "'uniform' names a model's folder and a scripted player: rename the folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env", "poker"], "env.name: unknown environment 'poker'; allowed: "),
        (["--env", "sokoban"], "env.name is 'sokoban'; allowed here are games: tic_tac_toe"),
        ([], "env.name is None; allowed here are games: tic_tac_toe"),
        (["nowhere", "--env", "kuhn_poker"], "nowhere' is no model; allowed: tiny"),
        (["--env", "kuhn_poker", "--scripts", "minmax"], "there is no player 'minmax'; allowed: uniform"),
        (
            ["--env", "kuhn_poker", "--scripts", "minimax"],
            "--scripts: minimax cannot play Kuhn poker; allowed: uniform, kuhn_equilibrium",
        ),
        (["--env", "kuhn_poker", "--scripts"], "matches need two players"),
        (["--env", "kuhn_poker", "--set", "env.turns=1"], "env.turns"),
        (["--env", "kuhn_poker", "--set", "env.task.cards=4"], "kuhn_poker has no setting 'cards'"),
        (["--env", "kuhn_poker", "--set", "multi_agent.illegal_move=skip"], "multi_agent.illegal_move"),
        (["--env", "open_spiel", "--set", "env.task.game=kuhn_poker(players=3)"], "has 3 seats here"),
    ],
)
def test_bad_input_costs_one_sentence(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--out", str(tmp_path / "found.json")]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
