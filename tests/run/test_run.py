"""The command from end to end, with real Ray and the embedded model: what it prints, writes, resumes."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rllib_ragen.models.folder import model_folder
from rllib_ragen.rollout.trajectory_json import from_json, to_json
from rllib_ragen.run.__main__ import main as run
from rllib_ragen.run.__main__ import parse, plan
from rllib_ragen.types import Trajectory
from tests.run.wandb_record import history, ids, sittings

TOP = Path(__file__).parents[2]
ITERATIONS = 4
SMALL = [
    *("--env", "sokoban", "--engine", "hf", "--iterations", str(ITERATIONS), "--num-groups", "3", "--group-size", "3"),
    *("--set", "eval.interval=2", "eval.num_instances=4", "eval.num_test_instances=5"),
    # Two threads that share their cores with anything else wait for each other most of the time.
    *("checkpoint_interval=3", "learner.torch_threads=1", "trackers=[tensorboard, wandb]"),
]
SECRET = "sesame-open-4711"
NEVER_THE_SAME = re.compile(r"time_|.*_per_s$|.*_idle_share$|.*_gib$")


def command(*arguments: str, module: str = "run", act: Callable[[str, int], None] | None = None) -> tuple[int, str]:
    """(exit code, output) of a command in a process group of its own; `act` sees each line and the group's id."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"rllib_ragen.{module}", *arguments],
        cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "HF_TOKEN": SECRET, "WANDB_API_KEY": SECRET, "WANDB_MODE": "offline"},
    )  # fmt: skip
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if act is not None:
            act(line, process.pid)
    return process.wait(), "".join(lines)


def interrupt_in_iteration_2(line: str, group: int) -> None:
    """What Ctrl-C in a terminal does: the signal goes to Ray's processes, too."""
    if line.startswith("iteration 1/"):
        os.killpg(group, signal.SIGINT)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


def by_key(folder: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows by (iteration, split, greedy), without what the clock measured."""
    return {
        (row["iteration"], row.get("split"), row.get("greedy")): {
            name: value for name, value in row.items() if not NEVER_THE_SAME.match(name)
        }
        for row in rows(folder)
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that nobody interrupted: its folder and its output."""
    results = tmp_path_factory.mktemp("results")
    code, output = command(*SMALL, "--results-dir", str(results), "--name", "whole")
    assert code == 0, output
    return results / "whole", output


@pytest.fixture(scope="module")
def halved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The same run, interrupted and resumed: its folder and both outputs."""
    results = tmp_path_factory.mktemp("results")
    arguments = (*SMALL, "--results-dir", str(results), "--name", "halved")
    code, first = command(*arguments, act=interrupt_in_iteration_2)
    assert code == 130, first
    code, second = command("--resume", str(results / "halved"))
    assert code == 0, second
    return results / "halved", first, second


def test_output_in_a_pipe_is_plain_lines(whole: tuple[Path, str]) -> None:
    _, output = whole
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", output), "control codes"
    assert (
        len(re.findall(rf"^iteration \d/{ITERATIONS}  success [\d.]+ %  valid [\d.]+ %  return ", output, re.MULTILINE))
        == ITERATIONS
    )
    assert "Traceback" not in output
    assert "Warning" not in output


def test_the_end_says_why_what_was_reached_and_where_it_lies(whole: tuple[Path, str]) -> None:
    folder, output = whole
    end = output[output.index("Stopped after iteration") :]
    assert f"because all {ITERATIONS} iterations are done" in end
    for label in ("test, T = 1", "test, greedy", "val, T = 1", "val, greedy"):
        assert re.search(
            rf"^{label} +[\d.]+ ± [\d.]+ % +[\d.]+ ± [\d.]+ % +[+-][\d.]+ ± [\d.]+ % +\d+ instances", end, re.MULTILINE
        )
    assert re.search(r"random [\d.]+ %, best blind plan [\d.]+ %, best possible [\d.]+ %", end)
    for told in re.findall(rf"{re.escape(str(folder))}[-/.*\w]*", end):
        path = Path(told.rstrip(","))
        assert list(path.parent.glob(path.name)), told


def test_validation_runs_every_k_iterations_and_at_both_ends(whole: tuple[Path, str]) -> None:
    found = [(row["iteration"], row["split"], row["greedy"]) for row in rows(whole[0]) if "split" in row]
    val = [(i, "val", greedy) for i in (0, 2, ITERATIONS) for greedy in (False, True)]
    test = [(i, "test", greedy) for i in (0, ITERATIONS) for greedy in (False, True)]
    assert sorted(found) == sorted(val + test)


def test_logs_agree_with_each_other(whole: tuple[Path, str]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, _ = whole
    trained = [row for row in rows(folder) if "split" not in row]
    assert [row["iteration"] for row in trained] == list(range(1, ITERATIONS + 1))
    assert all(a["time_s"] < b["time_s"] for a, b in itertools.pairwise(trained))
    with (folder / "progress.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [float(line["success"]) for line in table] == [row["success"] for row in trained]
    board = EventAccumulator(str(folder / "tensorboard"))
    board.Reload()
    curve = board.Scalars("rollout/success")
    assert [point.step for point in curve] == [row["iteration"] for row in trained]
    assert [point.value for point in curve] == pytest.approx([row["success"] for row in trained])
    # Where information was measured (the first iteration) figures are drawn; a trajectory is there of every iteration.
    figures = ["regime/any_turn", "regime/first_turn", "time/of_an_iteration"]
    assert sorted(board.Tags()["images"]) == figures
    assert [[image.step for image in board.Images(tag)] for tag in figures] == [[1]] * 3
    told = [event.tensor_proto.string_val[0].decode() for event in board.Tensors("trajectory/text_summary")]
    assert len(told) == ITERATIONS
    assert all(re.search(r"^group \d+, return .*^    <think>", text, re.MULTILINE | re.DOTALL) for text in told)
    assert yaml.safe_load((folder / "config.yaml").read_text())["rollout"]["group_size"] == 3
    assert "torch" in json.loads((folder / "versions.json").read_text())


def stored_trajectories(folder: Path, iteration: int) -> list[Trajectory]:
    records = [json.loads(line) for line in (folder / "trajectories.jsonl").read_text().splitlines()]
    return [from_json(record) for record in records if record["iteration"] == iteration]


def test_stored_trajectories_replay_to_the_samplers_logprobs(whole: tuple[Path, str]) -> None:
    """Iteration 1 was sampled with the weights that the package ships; plain transformers finds its log-probs again."""
    model = AutoModelForCausalLM.from_pretrained(model_folder("tiny"), dtype=torch.float32)
    trajectories = stored_trajectories(whole[0], 1)
    assert len({trajectory.group_id for trajectory in trajectories}) == 3
    assert len(trajectories) == 3 + 2, "one whole group, and one of each other group"
    for trajectory in trajectories:
        ids = torch.from_numpy(trajectory.token_ids()).long()
        with torch.no_grad():
            logprobs = model(ids[None]).logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0].numpy()
        trained = trajectory.turn_index()[1:] >= 0
        assert trained.any()
        difference = np.abs(logprobs - trajectory.behaviour_logprobs()[1:])[trained]
        # Unlikely tokens' log-probs are some −10 to −20: 2e-5 is their last bit or two in float32.
        assert difference.max() < 4e-5


def test_a_stored_trajectory_is_the_same_after_reading(whole: tuple[Path, str]) -> None:
    for trajectory in stored_trajectories(whole[0], ITERATIONS):
        again = from_json(json.loads(json.dumps(to_json(trajectory))))
        assert to_json(again) == to_json(trajectory)
        assert again.token_ids().tolist() == trajectory.token_ids().tolist()
        assert again.behaviour_logprobs().tobytes() == trajectory.behaviour_logprobs().tobytes()


def test_the_exported_model_is_a_plain_transformers_folder_with_trained_weights(whole: tuple[Path, str]) -> None:
    folder, _ = whole
    model = AutoModelForCausalLM.from_pretrained(folder / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    message = [{"role": "user", "content": "Sokoban"}]
    ids: Any = tokenizer.apply_chat_template(message, return_tensors="pt", return_dict=True)
    assert torch.isfinite(model(**ids).logits).all()
    before = AutoModelForCausalLM.from_pretrained(model_folder("tiny"))
    assert any(not torch.equal(a, b) for a, b in zip(model.parameters(), before.parameters(), strict=True))


def test_checkpoints_are_kept_at_the_interval_and_at_the_end(whole: tuple[Path, str]) -> None:
    names = sorted(path.name for path in (whole[0] / "checkpoints").iterdir())
    assert names == ["iteration_000003", f"iteration_{ITERATIONS:06d}"]
    scores = {
        iteration: sum(by_key(whole[0])[iteration, "val", greedy]["success"] for greedy in (False, True))
        for iteration in (0, 2, ITERATIONS)
    }
    (best,) = (whole[0] / "best").iterdir()
    assert scores[int(best.name.removeprefix("iteration_"))] == max(scores.values())
    assert (
        f"kept in {best}" in whole[1]
        and f"best           {best}  (on validation; evaluate, below, tells how good" in whole[1]
    )
    assert not [path for path in whole[0].rglob("*") if path.suffix in (".pkl", ".pt", ".pth", ".bin")]


def test_no_file_of_a_run_and_no_line_that_it_says_holds_the_environments_secrets(whole: tuple[Path, str]) -> None:
    folder, output = whole
    assert SECRET not in output
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_ctrl_c_saves_says_how_to_go_on_and_exits_130(halved: tuple[Path, str, str]) -> None:
    folder, output, _ = halved
    assert "SIGINT: stopping after the current step" in output
    assert f"To go on: python -m rllib_ragen.run --resume {folder}" in output
    assert f"iteration {ITERATIONS}/" not in output
    assert "Traceback" not in output


def test_R1_interrupted_and_resumed_is_the_same_run_bit_for_bit(
    whole: tuple[Path, str], halved: tuple[Path, str, str]
) -> None:
    assert by_key(halved[0]) == by_key(whole[0])
    assert len(rows(halved[0])) == len(rows(whole[0])), "an iteration is logged twice"
    mine, theirs = (load_file(folder / "model" / "model.safetensors") for folder in (halved[0], whole[0]))
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_R1_interrupted_and_resumed_is_one_record_of_its_tracker(
    whole: tuple[Path, str], halved: tuple[Path, str, str]
) -> None:
    def curve(records: list[list[Any]]) -> list[tuple[int, float]]:
        logged = [row for sitting in records for row in history(sitting)]
        return [(row["iteration"], row["rollout/success"]) for row in logged if "rollout/success" in row]

    one, two = sittings(whole[0]), sittings(halved[0])
    assert (len(one), len(two)) == (1, 2)
    assert ids(two[0]) == ids(two[1]) != ids(one[0])
    assert curve(two) == curve(one)
    assert [iteration for iteration, _ in curve(one)] == list(range(1, ITERATIONS + 1))
    assert f"wandb sync {whole[0] / 'wandb'}/offline-run-*" in whole[1]


def test_R1_a_resumed_run_may_change_its_end_and_nothing_else(
    whole: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(whole[0])
    assert run(["--resume", folder]) == 2
    assert f"all {ITERATIONS} of {folder} are done" in capsys.readouterr().err
    assert run(["--resume", folder, "--iterations", "9", "--lr", "1e-3"]) == 2
    assert "learner.lr: the run in" in capsys.readouterr().err
    assert run(["--resume", folder, "--iterations", "9", "--env", "bandit"]) == 2
    assert "env.name: the run in" in capsys.readouterr().err
    assert yaml.safe_load((whole[0] / "config.yaml").read_text())["iterations"] == ITERATIONS


def test_evaluate_finds_what_the_run_reached(whole: tuple[Path, str]) -> None:
    folder, _ = whole
    code, output = command(str(folder), "--split", "test", "--checkpoint", "newest", module="evaluate")
    assert code == 0, output
    assert f"checkpoints/iteration_{ITERATIONS:06d}" in output
    for greedy, label in ((False, "T = 1"), (True, "greedy")):
        success = by_key(folder)[ITERATIONS, "test", greedy]["success"]
        assert re.search(rf"^{label} +{100 * success:.1f} ± ", output, re.MULTILINE)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("time_limit_s=0.01", "the time limit of 0.01 s is reached"),
        ("token_limit=5", "the limit of 5 sampled tokens is reached"),
    ],
)
def test_a_limit_ends_a_run_and_is_named(limit: str, reason: str, tmp_path: Path) -> None:
    arguments = [*SMALL, "eval.num_test_instances=0", "eval.interval=0", "iterations=1000000", limit]
    code, output = command(*arguments, "--results-dir", str(tmp_path), "--name", "short")
    assert code == 0, output
    assert f"Stopped after iteration 1, because {reason}" in output
    assert (tmp_path / "short" / "checkpoints" / "iteration_000001").is_dir()
    (longer,) = re.findall(r"^train longer +python -m rllib_ragen\.run (.*)$", output, re.MULTILINE)
    job = plan(parse(shlex.split(longer)))
    key, value = limit.split("=")
    assert job.start is not None and getattr(job.config, key) == 2 * float(value)
