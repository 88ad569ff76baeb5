"""Whole sweeps with real Ray, real runs and real kills."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
import yaml

from rllib_ragen.config.load import read_yaml
from rllib_ragen.run.__main__ import main as run
from rllib_ragen.sweep.__main__ import main as sweep
from rllib_ragen.sweep.spec import read_sweep, save_sweep

TOP = Path(__file__).parents[2]
ITERATIONS = 3
SWEEP: dict[str, Any] = {
    "name": "tiny",
    "base": {
        "env": {"name": "bandit"},
        "rollout": {"num_groups": 2, "group_size": 2, "engine": "hf"},
        "iterations": ITERATIONS,
        "checkpoint_interval": 1,
        "eval": {"interval": 1, "num_instances": 4, "num_test_instances": 0},
    },
    "space": {"learner.lr": {"choice": [1e-4, 2e-4, 4e-4]}},
    "sampler": "grid",
    "trials": 3,
    "objectives": ["return"],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(SWEEP))
    return path


def command(
    *arguments: object, act: Callable[[str, int], None] | None = None, address: str = ""
) -> tuple[int, list[str]]:
    """(exit code, lines) of a sweep, on the Ray at `address` if given; `act` sees each line and the process id."""
    environment = os.environ | ({"RAY_ADDRESS": address, "RAY_AUTH_MODE": "token"} if address else {})
    process = subprocess.Popen(
        [sys.executable, "-m", "rllib_ragen.sweep", *map(str, arguments)],
        cwd=TOP, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip())
        if act is not None:
            act(line, process.pid)
    return process.wait(), lines


@contextmanager
def ray_of(cpus: int) -> Iterator[str]:
    """The address of a Ray with so many CPUs, in a process of its own: this one may have another."""
    start = f"import ray, sys; from rllib_ragen.run.start_ray import start_local; start_local({cpus})"
    tell = "print(ray.get_runtime_context().gcs_address, flush=True); sys.stdin.read()"
    head = subprocess.Popen(
        [sys.executable, "-c", f"{start}; {tell}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert head.stdin is not None and head.stdout is not None
    try:
        yield head.stdout.readline().strip()
    finally:
        head.stdin.close()
        head.wait()


def at_first(text: str, act: Callable[[int], None]) -> Callable[[str, int], None]:
    """`act` on the process id at the first line that holds `text`."""
    waiting = True

    def watch(line: str, pid: int) -> None:
        nonlocal waiting
        if waiting and text in line:
            waiting = False
            act(pid)

    return watch


def kill_a_trial(pid: int) -> None:
    trials = [one for one in psutil.Process(pid).children(recursive=True) if "ImplicitFunc" in " ".join(one.cmdline())]
    assert trials
    trials[0].kill()


def iterations_of(folder: Path) -> Iterator[list[int]]:
    for path in sorted(folder.glob("runs/*/progress.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        yield [row["iteration"] for row in rows if "split" not in row]


def values_of(folder: Path) -> list[float]:
    study = optuna.load_study(study_name="tiny", storage=f"sqlite:///{folder / 'study.db'}")
    assert [trial.state for trial in study.trials] == [optuna.trial.TrialState.COMPLETE] * 3
    return [trial.values[0] for trial in study.trials]


def most_at_once(lines: list[str]) -> int:
    now = most = 0
    for line in lines:
        now += ("begins" in line) - line.endswith("done")
        most = max(most, now)
    return most


def test_a_killed_run_goes_on_from_its_checkpoint_and_runs_wait_for_their_cpus(file: Path, tmp_path: Path) -> None:
    act = at_first("iteration 1 ", kill_a_trial)
    code, lines = command(file, "--results-dir", tmp_path, act=act)
    assert code == 0, "\n".join(lines)
    folder = tmp_path / "tiny"
    assert list(iterations_of(folder)) == [list(range(1, ITERATIONS + 1))] * 3
    assert sum("begins" in line for line in lines) == 4, "one run began twice"
    values_of(folder)
    page = (folder / "report.html").read_text()
    assert page.count("<svg") == 3
    links = re.findall(r"""(?:src|href)=["']?([^"'\s>]*)|@import|url\(["']?([^"')]*)""", page)
    assert all("".join(link).startswith(("#", "data:image/")) for link in links), "the page loads nothing"
    assert len((folder / "trials.csv").read_text().splitlines()) == 1 + 3
    best = ["--config", str(folder / "best.yaml"), "--results-dir", str(tmp_path), "--iterations", "0"]
    assert run(best) == 2, "the best config is one that run reads (and 0 iterations are none)"


@pytest.mark.slow
def test_R3_a_sweep_whose_driver_is_killed_is_finished_by_resume(file: Path, tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "killed" / "tiny"
    command(file, "--results-dir", whole)
    act = at_first("done", lambda pid: os.kill(pid, signal.SIGKILL))
    code, lines = command(file, "--results-dir", folder.parent, act=act)
    assert code == -signal.SIGKILL
    done = [line.split()[1] for line in lines if line.endswith("done")]
    kept = {number: (folder / f"runs/trial_{int(number):04}_seed0/progress.jsonl").stat().st_mtime for number in done}
    code, lines = command("--resume", folder)
    assert code == 0, "\n".join(lines)
    for number, changed in kept.items():
        assert (folder / f"runs/trial_{int(number):04}_seed0/progress.jsonl").stat().st_mtime == changed
    assert list(iterations_of(folder)) == [list(range(1, ITERATIONS + 1))] * 3
    assert values_of(folder) == values_of(whole / "tiny")


def test_bad_input_is_one_sentence_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.yaml").write_text(yaml.safe_dump({**SWEEP, "space": {}}))
    assert sweep([str(tmp_path / "bad.yaml"), "--results-dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("rllib_ragen: space: is empty")
    assert sweep(["--resume", str(tmp_path)]) == 2
    assert "is no sweep folder" in capsys.readouterr().err
    assert sweep([str(tmp_path / "missing.yaml")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert not list(tmp_path.glob("tiny*"))


@pytest.mark.slow
@pytest.mark.parametrize(("cpus", "at_once"), [(2, 1), (4, 2)])
def test_runs_with_a_runner_each_queue_for_both_of_their_cpus(tmp_path: Path, cpus: int, at_once: int) -> None:
    """A runner outside of its run's bundles would wait for a CPU for ever, and one that was not counted would, too."""
    rollout = {**SWEEP["base"]["rollout"], "num_env_runners": 1}
    space = {"learner.lr": {"choice": [1e-4, 2e-4]}}
    file = tmp_path / "tiny.yaml"
    file.write_text(
        yaml.safe_dump({**SWEEP, "base": {**SWEEP["base"], "rollout": rollout}, "space": space, "trials": 2})
    )
    with ray_of(cpus) as address:
        code, lines = command(file, "--results-dir", tmp_path, address=address)
    assert code == 0, "\n".join(lines)
    assert sum(line.endswith("done") for line in lines) == 2
    assert most_at_once(lines) == at_once


def test_a_sweep_without_a_success_says_where_it_says_why(tmp_path: Path) -> None:
    """Every path and file in it is there, also where a run failed before it had a folder."""
    broken = {**SWEEP, "trials": 1, "retries": 0, "space": {"learner.lr": {"choice": [1e-4]}}}
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(broken))
    # A file in the place of the runs' folder: no run can make its own.
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "runs").write_text("")
    spec = read_sweep(read_yaml(file))
    save_sweep(spec, tmp_path / "tiny" / "sweep.yaml")
    code, lines = command("--resume", tmp_path / "tiny")
    said = "\n".join(lines)
    assert code == 1, said
    told = said[said.index("No configuration succeeded. Why is in:") :].splitlines()[1:]
    assert told and all(Path(line.strip()).is_file() for line in told)
    assert any(str(tmp_path / "tiny" / "runs") in Path(line.strip()).read_text() for line in told)
    (note,) = re.findall(r"crashed; see (\S+)", said)
    assert (tmp_path / "tiny" / note).is_file()
    (failed,) = re.findall(r"FAILED, see (\S+)", said)
    assert Path(failed).is_file()


@pytest.mark.slow
def test_SIGINT_ends_a_sweep_with_the_command_that_goes_on(file: Path, tmp_path: Path) -> None:
    act = at_first("iteration 1 ", lambda pid: os.kill(pid, signal.SIGINT))
    code, lines = command(file, "--results-dir", tmp_path, act=act)
    assert code == 130, "\n".join(lines)
    assert f"Stopped. To go on: python -m rllib_ragen.sweep --resume {tmp_path / 'tiny'}" in lines
    assert not any(line.startswith(("best config", "No configuration succeeded")) for line in lines)
    code, lines = command("--resume", tmp_path / "tiny")
    assert code == 0, "\n".join(lines)


@pytest.mark.slow
def test_SIGTERM_ends_a_sweep_with_the_command_that_goes_on(file: Path, tmp_path: Path) -> None:
    act = at_first("iteration 1 ", lambda pid: os.kill(pid, signal.SIGTERM))
    code, lines = command(file, "--results-dir", tmp_path, act=act)
    assert code != 0
    assert f"Stopped. To go on: python -m rllib_ragen.sweep --resume {tmp_path / 'tiny'}" in lines
    assert not any(line.startswith("best config") for line in lines)
    code, lines = command("--resume", tmp_path / "tiny")
    assert code == 0, "\n".join(lines)
    assert list(iterations_of(tmp_path / "tiny")) == [list(range(1, ITERATIONS + 1))] * 3
