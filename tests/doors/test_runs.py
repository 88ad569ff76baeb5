"""What is named by import path or registered works in every command, and in every process of a run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rllib_ragen import load_run
from tests.doors.build import ESTIMATOR, FILTER, GAME, LOSS, TOP, WORLD, write_package
from tests.patience import PATIENCE_S

TINY = ["eval.num_instances=2", "eval.num_test_instances=0", "learner.torch_threads=1"]
SMALL = ["--engine", "hf", "--num-groups", "2", "--group-size", "2", "--iterations", "1"]


def start(folder: Path, *words: str, text: str = "", path: str = "") -> subprocess.CompletedProcess[str]:
    """Runs Python in `folder`, where only the current folder (and `path`) leads to the user's code."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(TOP), path]))}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def command(folder: Path, name: str, *words: str, text: str = "") -> str:
    done = start(folder, "-m", f"rllib_ragen.{name}", *words, text=text)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from YAML and flags, with a world, an estimator, a filter and a loss by path, and an actor that samples."""
    folder = write_package(tmp_path_factory.mktemp("user"))
    settings = {
        "env": {"name": WORLD, "task": {"fields": 5}, "max_turns": 2},
        "credit": {"filter": FILTER},
        "learner": {"loss": LOSS},
        "rollout": {"num_env_runners": 1},
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(settings))
    words = ["--config", "mine.yaml", "--estimator", ESTIMATOR, *SMALL, "--name", "one"]
    said = command(folder, "run", *words, "--set", *TINY, "eval.interval=1")
    assert "baselines unknown" in said
    return folder / "results" / "one"


def test_a_run_keeps_the_names_and_says_what_it_reached(run_folder: Path) -> None:
    result = load_run(run_folder)
    assert (result.config.env.name, result.config.credit.estimator) == (WORLD, ESTIMATOR)
    assert [row["iteration"] for row in result.metrics] == [1]
    assert {row["split"] for row in result.evaluations} == {"val"}
    assert result.stop_reason == "all 1 iterations are done"
    assert result.model is not None and (result.model / "model.safetensors").is_file()
    turns = json.loads((run_folder / "trajectories.jsonl").read_text().splitlines()[0])["turns"]
    assert "You are on field" in turns[0]["prompt"]


def test_the_run_goes_on(run_folder: Path) -> None:
    command(run_folder.parents[1], "run", "--resume", str(run_folder), "--iterations", "2")
    assert load_run(run_folder).stop_reason == "all 2 iterations are done"


def test_evaluate_play_and_report_know_the_world(run_folder: Path) -> None:
    user = run_folder.parents[1]
    assert "baselines unknown" in command(user, "evaluate", str(run_folder), "--num-instances", "2")
    assert "You are on field" in command(user, "play", "--policy", str(run_folder))
    played = command(user, "play", "--env", WORLD, text="Dig\n")
    assert "ran: Dig" in played
    command(user, "report", str(run_folder))


def test_a_folder_that_was_handed_over_imports_nothing_of_its_own(run_folder: Path, tmp_path: Path) -> None:
    """Code in a results folder is not on the path; a report and `load_run` do without it, and evaluate says so."""
    write_package(run_folder)
    done = start(tmp_path, "-m", "rllib_ragen.evaluate", str(run_folder))
    assert done.returncode == 2
    assert "env.name: 'my_pkg.worlds:TreasureHunt' cannot be imported: there is no module 'my_pkg'" in done.stderr
    assert "Traceback" not in done.stderr
    done = start(tmp_path, "-m", "rllib_ragen.report", str(run_folder))
    assert done.returncode == 0, done.stderr
    loaded = f"import sys, rllib_ragen; rllib_ragen.load_run({str(run_folder)!r}); assert 'my_pkg' not in sys.modules"
    assert start(tmp_path, "-c", loaded).returncode == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--env", "my_pkg.worlds:TreasureHumt"], "env.name: .*did you mean 'TreasureHunt'"),
        (["--env", "my_pkg.broken:X"], "env.name: .*raises RuntimeError: no licence found"),
        (["--env", WORLD, "--set", "env.task.felds=3"], "unknown setting 'felds'; allowed: fields"),
        (["--estimator", "my_pkg.none:number"], "credit.estimator: .*must be a class derived from Estimator, not 3"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(words: list[str], says: str, tmp_path: Path) -> None:
    done = start(write_package(tmp_path), "-m", "rllib_ragen.run", *words)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert re.match(f"rllib_ragen: .*{says}", line), line


@pytest.mark.slow
def test_a_sweep_finds_the_world_in_its_trials(tmp_path: Path) -> None:
    user = write_package(tmp_path)
    sweep = {
        "name": "mine",
        "base": {
            "env": {"name": WORLD, "max_turns": 2},
            "rollout": {"num_groups": 2, "group_size": 2, "engine": "hf", "num_env_runners": 1},
            "iterations": 1,
            "eval": {"interval": 1, "num_instances": 2, "num_test_instances": 0},
        },
        "space": {"credit.estimator": {"choice": ["rloo", ESTIMATOR]}, "credit.filter": {"choice": [FILTER]}},
        "sampler": "grid",
        "trials": 2,
        "objectives": ["return"],
    }
    (user / "mine.yaml").write_text(yaml.safe_dump(sweep))
    assert command(user, "sweep", "mine.yaml").count("  done") == 2


@pytest.mark.slow
def test_a_game_of_ones_own_is_trained_and_played_in_tournaments(tmp_path: Path) -> None:
    user = write_package(tmp_path)
    words = ["--env", GAME, *SMALL, "--name", "game", "--set", *TINY, "eval.interval=0", "env.task.rounds=1"]
    assert "baselines unknown" in command(user, "run", *words, "rollout.num_env_runners=1")
    command(user, "tournament", "results/game", "--env", GAME, "--plays", "2", "--set", "env.task.rounds=1")
    assert json.loads((user / "tournament.json").read_text())["game"] == GAME
    assert "Matching pennies" in start(user, "-m", "ragen_envs.games.play", GAME, text="Heads\n" * 5).stdout


@pytest.mark.slow
@pytest.mark.parametrize("example", ["own_world", "own_credit"])
def test_the_examples_run_and_what_they_register_reaches_the_actors(example: str, tmp_path: Path) -> None:
    """What is registered is defined in `__main__`: no other process could import it."""
    actors = ["--num-env-runners", "1"] if example == "own_world" else ["--num-learners", "1"]
    words = [str(TOP / "examples" / f"{example}.py"), "--iterations", "1", "--results-dir", str(tmp_path), *actors]
    done = start(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = tmp_path.iterdir()
    assert load_run(folder).stop_reason == "all 1 iterations are done"
    assert "registered by this program, not known to --resume" in done.stdout
    # Nobody knows the name any more; a report does without.
    assert start(tmp_path, "-m", "rllib_ragen.report", str(folder)).returncode == 0
    refused = start(tmp_path, "-m", "rllib_ragen.run", "--resume", str(folder), "--iterations", "2")
    assert refused.returncode == 2 and "or an import path package.module:Name" in refused.stderr
