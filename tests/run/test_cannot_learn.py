"""A run that cannot learn says so within three iterations: on the console, as an alarm, with a reply and what to do."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rllib_ragen.models.folder import model_folder
from rllib_ragen.run.console import ConsoleState, make_display
from rllib_ragen.run.example_reply import example_reply
from rllib_ragen.run.model_fit import misfits, taught_tasks
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.types import StopReason, Trajectory, Turn
from tests.run.test_run import command

METRICS = {"success": 0.0, "valid_ratio": 0.125, "kept_groups": 4.0, "num_groups": 4.0, "zero_spread_groups": 4.0}


def line(**changed: Any) -> str:
    out = io.StringIO()
    make_display("run", out).iteration(ConsoleState(1, 2, 1.0, 1.0, {**METRICS, **changed}))
    return out.getvalue()


def test_the_console_line_says_how_many_replies_are_valid_and_whether_anything_differs() -> None:
    assert "valid 12.5 %" in line()
    assert "kept groups all 4 alike" in line() and "4/4" not in line()
    assert "kept groups 4/4" in line(zero_spread_groups=3.0)
    assert "kept groups 4/4" in line(zero_spread_groups=None), "groups of one: nobody compares them"
    assert "kept groups 0/0" in line(kept_groups=0.0, num_groups=0.0, zero_spread_groups=0.0)


def played(reply: str, tokens: int, *, valid: bool, stop: StopReason = StopReason.MAX_TURNS) -> Trajectory:
    ids = np.arange(tokens, dtype=np.int32)
    turn = Turn(ids[:2], ids, np.zeros(tokens, np.float32), 0.0, 0, valid=valid, reply=reply)
    return Trajectory("g", 0, 0, [turn], stop)


def test_an_example_is_one_short_harmless_line_of_what_is_wrong() -> None:
    good, lost = played("fine", 5, valid=True), played("lost", 5, valid=False, stop=StopReason.ENV_ERROR)
    bad = played("line one\nline\x1b[2J two " + "x" * 1000, 9, valid=False)
    said = example_reply([lost, good, bad], 10)
    assert said.startswith('a reply was "line one line\\x1b[2J two xxx') and said.endswith('…"') and len(said) < 200
    assert example_reply([bad], 9).endswith('…" (cut off at 9 tokens)')
    assert example_reply([good], 10) == 'a reply was "fine"'
    assert example_reply([lost], 10) == example_reply([], 10) == ""


def run_of_a_task(folder: Path, env: str) -> Path:
    """A run's folder whose exported model is the embedded one, as training leaves it."""
    shutil.copytree(model_folder("tiny"), folder / "model")
    (folder / "config.yaml").write_text(yaml.safe_dump({"env": {"name": env}}))
    return folder / "model"


@pytest.mark.parametrize(
    ("env", "style", "says"),
    [
        ("kuhn_poker", "brief", [r"was taught sokoban, frozen_lake, bandit, countdown, rubik, and not kuhn_poker"]),
        ("sudoku", "auto", ["and not sudoku", "env.prompt_style=auto tells it full ones; env.prompt_style=brief"]),
        ("sokoban", "full", ["env.prompt_style=full tells it full ones"]),
        ("sokoban", "brief", []),
        ("rubik", "brief", []),
        ("ragen/FrozenLake-v0", "brief", []),
    ],
)
def test_a_small_model_is_told_what_it_was_not_taught(env: str, style: str, says: list[str], tmp_path: Path) -> None:
    model = run_of_a_task(tmp_path / "run", "rubik")
    found = misfits(build_config({"env": {"name": env, "prompt_style": style}, "model": {"path": str(model)}}))
    assert len(found) == len(says)
    for said, wanted in zip(found, says, strict=True):
        assert wanted in said and str(model) in said and "\n" not in said


def test_who_does_not_say_what_it_was_taught_is_not_judged(tmp_path: Path) -> None:
    model = run_of_a_task(tmp_path / "run", "rubik")
    for content in (None, "no json", "[]", '{"taught": 3}', '{"taught": [{"env": 3}]}'):
        (model / "made.json").unlink(missing_ok=True)
        if content is not None:
            (model / "made.json").write_text(content)
        assert taught_tasks(model) == []
    (model / "made.json").write_text('{"game": "tic_tac_toe"}')
    (model.parent / "config.yaml").write_text("env: {name: a_world_that_is_gone}")
    assert taught_tasks(model) == ["tic_tac_toe"]
    assert misfits(build_config({})) == []


def test_a_sokoban_model_in_kuhn_poker_warns_and_says_within_three_iterations_that_it_learns_nothing(
    tmp_path: Path,
) -> None:
    model = run_of_a_task(tmp_path / "sokoban_run", "sokoban")
    code, output = command(
        *("--env", "kuhn_poker", "--model", str(model), "--engine", "hf", "--iterations", "3", "--num-groups", "2"),
        *("--group-size", "2", "--results-dir", str(tmp_path), "--name", "run", "--set", "env.prompt_style=brief"),
        # Whatever is played for an illegal move, nobody wins by: all members of a group are paid alike.
        *("multi_agent.illegal_move=forfeit", "eval.interval=0", "eval.num_test_instances=0", "diagnostics.interval=0"),
        *("learner.torch_threads=1", "rollout.max_reply_tokens=24", "credit.filter=none", "credit.estimator=rloo"),
    )
    assert code == 0, output
    assert (
        f"warning     the model in {model} was taught sokoban, frozen_lake, bandit, countdown, and not kuhn_poker"
        in output
    )
    assert "valid 0.0 %" in output
    rows = [json.loads(row) for row in (tmp_path / "run" / "alarms.jsonl").read_text().splitlines()]
    told = {row["alarm"]: row for row in rows}
    assert {"no_valid_reply", "nothing_to_compare"} <= told.keys()
    for alarm, advice in (("no_valid_reply", "env.reply_prefix"), ("nothing_to_compare", "rollout.group_size")):
        row = told[alarm]
        assert row["iteration"] == 3 and advice in row["message"] and 'a reply was "' in row["message"]
        assert f"warning  {alarm.replace('_', ' ')} at iteration 3: " in output
    assert "kept groups all 4 alike" in output and "kept groups 4/4" not in output
