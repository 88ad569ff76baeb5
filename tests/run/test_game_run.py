"""`python -m rllib_ragen.run --env tictactoe --self-play` and what can be done with the run afterwards."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from ragen_envs.games.registry import game_names, make_text_game
from ragen_envs.reply import parse_reply
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import preset, read_yaml
from rllib_ragen.evaluate import __main__ as evaluate
from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.models.tiny.game_model import ensure_game_model, game_model_folder, make, num_games_of
from rllib_ragen.play import __main__ as play
from rllib_ragen.report.__main__ import main as report
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.run import __main__ as run
from rllib_ragen.run.evaluation import scale_line
from rllib_ragen.run.game_baselines import game_scale
from rllib_ragen.run.preflight import preflight
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.types import Sampled, Sampling
from tests.rollout.build import run_raw
from tests.starpo.conftest import local_ray, model, one_thread  # noqa: F401 - fixtures

TOP = Path(__file__).parents[2]
MODES = sorted(path for path in (TOP / "tune_configs" / "games").glob("*.yaml") if path.name not in ("defaults.yaml",))
SMALL = [
    *("rollout.num_groups=2", "rollout.group_size=2", "rollout.max_context_tokens=512", "rollout.max_reply_tokens=6"),
    *(
        "env.prompt_style=brief",
        "env.max_turns=5",
        "multi_agent.list_actions=false",
        "eval.num_instances=4",
        "eval.num_test_instances=4",
    ),
    *("eval.interval=1", "learner.torch_threads=1", "diagnostics.interval=1", "diagnostics.num_prompts=2"),
]


@pytest.mark.usefixtures("local_ray")
def test_a_game_trains_resumes_is_evaluated_and_reported(
    model: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for module in (run, evaluate):
        # Ray is there already, for all tests of this process.
        monkeypatch.setattr(module, "start_ray", lambda config: None)
    folder = tmp_path / "ttt"
    words = ["--env", "tictactoe", "--self-play", "--model", str(model), "--iterations", "2", "--name", "ttt"]
    assert run.main([*words, "--results-dir", str(tmp_path), "--set", *SMALL]) == 0
    said = capsys.readouterr().out
    assert "task        tic_tac_toe: random 43.6 %, minimax 87.3 %, best possible 96.5 %, all against random" in said
    assert "player_1 vs minimax: 0 % won" in said
    assert run.main(["--resume", str(folder), "--iterations", "3"]) == 0
    assert evaluate.main([str(folder), "--num-instances", "4"]) == 0
    assert "player_0 vs uniform: " in capsys.readouterr().out
    with (folder / "progress.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["iteration"] for row in table] == ["1", "2", "3"]
    assert all(row[f"{outcome}_rate_player_0"] for row in table for outcome in ("win", "draw", "loss"))
    lines = [json.loads(line) for line in (folder / "progress.jsonl").read_text(encoding="utf-8").splitlines()]
    found = [row for row in lines if row.get("split") == "val" and not row["greedy"]]
    assert [row["iteration"] for row in found] == [0, 1, 2, 3]
    assert all(row["win_rate_player_1_vs_minimax"] == 0.0 for row in found)
    assert {path.suffix for path in (folder / "model").iterdir()} >= {".safetensors", ".json"}
    assert report([str(folder)]) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "player_1" in page and "random 43.6 %" in page


@pytest.mark.parametrize("path", MODES, ids=lambda path: path.stem)
def test_every_yaml_of_the_games_is_a_run(path: Path) -> None:
    config = build_config(read_yaml(path))
    assert preset(config.env.name)["env"]["name"] == config.env.name
    if "config" in path.read_text(encoding="utf-8"):
        mode = path.stem.split("_random")[0].split("_scripted")[0]
        assert config.multi_agent.mode == ("self_play" if mode == "cooperative" else mode)


def test_self_play_wants_a_game() -> None:
    with pytest.raises(ConfigError, match=r"multi_agent\.mode=self_play with env\.name=sokoban, which is no game"):
        run.plan(run.parse(["--env", "sokoban", "--self-play"]))


def test_games_are_played_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert play.main(["--env", "kuhn_poker"]) == ExitCode.BAD_INPUT
    assert "python -m ragen_envs.games.play kuhn_poker" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in game_names() if name != "open_spiel"])
def test_every_game_passes_all_checks_with_its_own_settings(name: str, tmp_path: Path) -> None:
    """Those that the command makes before anything expensive starts: `run --env NAME` alone is enough."""
    config = build_config(preset(name), {"results_dir": str(tmp_path)})
    assert preflight(config).name == "hf"


def test_the_scale_of_a_game_is_the_mean_over_its_seats() -> None:
    scale = game_scale("kuhn_poker", {})
    assert scale is not None
    # 56.2 and 43.8 %; 52.8 and 47.2 %; 75.0 and 62.5 % (docs/games.md).
    assert scale.random == pytest.approx(0.5, abs=1e-3) and scale.best == pytest.approx(0.6875, abs=1e-3)
    assert scale.scripted is not None and scale.scripted[0] == "kuhn_equilibrium"
    assert scale.scripted[1] == pytest.approx(0.5, abs=1e-3)
    assert game_scale("tic_tac_toe", {"opening_moves": 3}) is None


def test_the_scale_of_a_cooperative_game_is_that_of_each_player_with_its_like() -> None:
    scale = game_scale("frozen_lake_pair", {})
    assert scale is not None and scale.scripted is not None
    assert scale.scripted[0] == "pathfinder"
    assert scale.scripted[1] > 0.9 > 0.1 > scale.random, "two who know the way, and two who do not"
    assert scale_line(scale).endswith("each with its like")


def test_the_small_model_of_tic_tac_toe_comes_with_the_package_and_tells_the_board_truly() -> None:
    from ragen_envs.games import GameLimits

    folder = game_model_folder("tic_tac_toe", {}, GameLimits())
    assert folder.parent.name == "games", "the shipped one is of another recipe: make it anew"
    assert ensure_game_model("tic_tac_toe", {}, GameLimits()) == folder
    assert json.loads((folder / "made.json").read_text())["games"] == num_games_of("tic_tac_toe")
    right = [told == true for told, true in thoughts(folder, num_games=12)]
    assert len(right) > 60 and sum(right) / len(right) > 0.75


def thoughts(folder: Path, num_games: int) -> Iterator[tuple[str, str]]:
    """(what the model's thought says of the position, what is true) in games of the model with itself."""
    from rllib_ragen.models.chat_format import ChatFormat

    chat = ChatFormat.from_folder(folder)
    llm = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, use_safetensors=True)
    engine = HFEngine(llm, max_context=1024)
    env = make_text_game("tic_tac_toe", {}, {"prompt_style": "brief"})
    for number in range(num_games):
        prompts, _ = env.reset(seed=number)
        contexts: dict[str, list[int]] = {}
        while env.agents:
            (seat,) = env.to_act
            ids = chat.first_prompt(env.system_prompt, prompts[seat])
            if seat in contexts:
                ids = [*contexts[seat], *chat.next_prompt(prompts[seat], finished=True)]
            sampled = run_raw(engine, {0: (ids, Sampling(64, chat.stop_token_ids, seed=number))})[0]
            assert isinstance(sampled, Sampled)
            engine.forget(0)
            said = str(chat.tokenizer.decode(sampled.token_ids[:-1]))
            yield parse_reply(said).thought.rpartition(", ")[0], env.game.describe_for(seat)
            contexts[seat] = [*ids, *sampled.token_ids]
            prompts = env.step({seat: said}).observations


def test_a_games_own_small_model_is_a_folder_like_any_other(tmp_path: Path) -> None:
    from ragen_envs.games import GameLimits
    from rllib_ragen.models.chat_format import ChatFormat

    make(tmp_path, "kuhn_poker", {}, GameLimits(), num_games=24)
    chat = ChatFormat.from_folder(tmp_path)
    assert "Your card: King" in chat.tokenizer.decode(chat.first_prompt("Kuhn poker", "Turn 1\nYour card: King"))
    assert json.loads((tmp_path / "made.json").read_text())["games"] == 24
