"""A run of two environments, one with a curriculum, from end to end: what it says, logs, reports, and resumes."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import ray
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rllib_ragen.evaluate.__main__ import main as evaluate
from rllib_ragen.play.__main__ import main as play
from rllib_ragen.report.__main__ import main as report
from rllib_ragen.run.__main__ import main as run
from rllib_ragen.run.start_ray import start_local

NEVER_THE_SAME = re.compile(r"time_|.*_per_s$|.*_idle_share$|.*_gib$")
CONFIG = """
envs:
  - name: sokoban
    weight: 2
    curriculum: {levels: [{max_actions: 9}, {max_actions: 10}], window: 2, raise_at: 0.2, eval_levels: last}
  - {name: frozen_lake, task: {success_rate: 1.0}}
rollout: {engine: hf, num_groups: 6, group_size: 4}
credit: {estimator: reinforce++}
learner: {torch_threads: 1, lr: 1.0e-3}
diagnostics: {interval: 2, num_prompts: 4}
eval: {interval: 3, num_instances: 3, num_test_instances: 3}
iterations: 3
checkpoint_interval: 1
keep_checkpoints: 0
"""


def said_by(command: Any, *arguments: str) -> str:
    with redirect_stdout(StringIO()) as out:
        code = command(arguments)
    assert code == 0, out.getvalue()
    return out.getvalue()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The run's folder and its output."""
    results = tmp_path_factory.mktemp("results")
    (results / "run.yaml").write_text(CONFIG)
    started = not ray.is_initialized()
    if started:
        start_local(2)
    output = said_by(run, "--config", str(results / "run.yaml"), "--results-dir", str(results), "--name", "mix")
    yield results / "mix", output
    if started:
        ray.shutdown()


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


def test_it_tells_of_each_environment(done: tuple[Path, str]) -> None:
    _, output = done
    assert re.search(r"^task +sokoban, 66\.7 % of the groups, 2 levels: random [\d.]+ %", output, re.MULTILINE)
    assert re.search(r"^task +frozen_lake, 33\.3 % of the groups: random [\d.]+ %", output, re.MULTILINE)
    line = r"^iteration 3/3  success [\d.]+ %  .*sokoban [\d.]+ %  .*frozen_lake [\d.]+ %.*sokoban level 2/2"
    assert re.search(line, output, re.MULTILINE)
    assert re.search(r"^sokoban: level 2 is open, after [\d.]+ % on level 1$", output, re.MULTILINE)
    assert re.search(r"^val at iteration 3, mean over environments, 6 instances: T = 1", output, re.MULTILINE)
    for label in ("sokoban", "frozen_lake"):
        assert re.search(rf"^  {label}: val at iteration 3, 3 instances: .*random [\d.]+ %", output, re.MULTILINE)
        table = output[output.index("all environments, mean") :].split(f"\n\n{label}\n")[1]
        assert re.match(r"success on unseen instances .*\ntest, T = 1 .*\n(.*\n)*?on this scale: random", table)


def test_logs_hold_the_whole_and_each(done: tuple[Path, str]) -> None:
    folder, _ = done
    for row in rows(folder):
        names = {"success", "sokoban/success", "frozen_lake/success"}
        assert names <= row.keys(), row["iteration"]
        assert ("sokoban/levels_open" in row) == ("split" not in row)
    stored = [json.loads(line) for line in (folder / "trajectories.jsonl").read_text().splitlines()]
    assert {one["env"] for one in stored if one["iteration"] == 1} == {"sokoban", "frozen_lake"}
    board = EventAccumulator(str(folder / "tensorboard"))
    board.Reload()
    tags = set(board.Tags()["scalars"])
    assert {"rollout/success", "sokoban/success", "frozen_lake/success", "sokoban/val_greedy/success"} <= tags
    assert not [tag for tag in tags if tag.startswith("more/")]


def test_R1_a_run_that_was_killed_goes_on_to_the_last_bit(done: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = done
    killed = tmp_path / "killed"
    shutil.copytree(folder, killed)
    for gone in ("checkpoints/iteration_000003", "model", "best"):
        shutil.rmtree(killed / gone)
    output = said_by(run, "--resume", str(killed))
    assert "resumed     at iteration 2" in output

    def comparable(row: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if not NEVER_THE_SAME.match(name)}

    assert [comparable(row) for row in rows(killed)] == [comparable(row) for row in rows(folder)]
    weights = "checkpoints/iteration_000003/default_policy/policy/model.safetensors"
    found, expected = load_file(killed / weights), load_file(folder / weights)
    assert found.keys() == expected.keys() and all(found[name].equal(expected[name]) for name in expected)


def test_one_of_them_or_all_are_evaluated(done: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = done
    arguments = (str(folder), "--split", "val", "--num-instances", "3", "--checkpoint", "newest")
    of_all, of_one = said_by(evaluate, *arguments), said_by(evaluate, *arguments, "--env", "frozen_lake")
    assert "sokoban, frozen_lake, val split" in of_all and "mean over environments: " in of_all
    own = [line for line in of_all.splitlines() if " frozen_lake: " in line and "instances" in line]
    assert len(own) == 2 and all(line in of_one for line in own), "the same figures, alone or with the others"
    assert "sokoban" not in of_one and "on this scale: frozen_lake: random" in of_one
    assert evaluate((*arguments, "--env", "lake")) == 2
    said = capsys.readouterr().err
    assert "unknown environment 'lake'; allowed: " in said and "or one of the run's own: sokoban, frozen_lake" in said
    table = said_by(evaluate, *arguments[:-2], "--env", "frozen_lake", "bandit/reversed")
    assert len(re.findall(r"^mix +(?:frozen_lake|bandit/reversed) ", table, re.MULTILINE)) == 2


def test_one_of_them_is_played(done: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = done
    assert "[system]\n" in said_by(play, "--policy", str(folder), "--env", "frozen_lake", "--greedy")
    assert play(("--policy", str(folder))) == 2
    assert "--env is not given" in capsys.readouterr().err


def test_the_report_has_a_part_for_each(done: tuple[Path, str]) -> None:
    folder, _ = done
    said_by(report, str(folder))
    page = (folder / "report.html").read_text()
    for part in ('id="environment-sokoban"', 'id="environment-frozen_lake"', "Recent success by level", "mix: sokoban"):
        assert part in page
    assert page.count("<h3>Success while training</h3>") == 3
    assert 'id="curriculum"' not in page, "the curriculum is sokoban's"
