"""The driver: signals, a kill, a learner that dies or hangs, weights that break. Real processes, real signals."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from rllib_ragen.exits import ExitCode
from tests.faults.build import LEARNER, RUNNER, SMALL, AtIteration, Ended, actors, kill, newest_is_sound, rows, run

EVERY = ("checkpoint_interval=1",)


def hurt(tmp_path: Path, act: AtIteration | None, *settings: str, patch: str = "") -> tuple[Ended, Path]:
    """A small endless run that is hurt; how it ended, and its folder."""
    ended = run(*SMALL, *settings, "--results-dir", str(tmp_path), "--name", "run", act=act, patch=patch)
    assert ended.left == [], "processes outlive the run"
    return ended, tmp_path / "run"


def assert_told(ended: Ended, code: ExitCode, sentence: str, folder: Path) -> None:
    """One sentence, the resume command, the exit code; no traceback on the screen."""
    assert ended.code == code, ended.output
    assert sentence in ended.output
    assert ended.output.count("Stopped") == 1
    assert f"To go on: python -m rllib_ragen.run --resume {folder}" in ended.output
    assert "Traceback" not in ended.output


def test_R1_a_killed_driver_leaves_no_process_and_is_resumed(tmp_path: Path) -> None:
    act = AtIteration(3, lambda process: process.kill())
    ended, folder = hurt(tmp_path, act, *EVERY, "rollout.num_env_runners=1")
    assert ended.code == -signal.SIGKILL
    saved = newest_is_sound(folder)
    assert saved in (2, 3), "the last interval, or the one before if the kill came while it was saved"
    resumed = run("--resume", str(folder), "--iterations", str(saved + 2))
    assert resumed.code == 0, resumed.output
    assert [row["iteration"] for row in rows(folder)] == list(range(1, saved + 3)), "each iteration once"


def test_SIGTERM_saves_and_exits_143(tmp_path: Path) -> None:
    ended, folder = hurt(tmp_path, AtIteration(2, lambda process: os.kill(process.pid, signal.SIGTERM)))
    assert ended.code == ExitCode.TERMINATED, ended.output
    assert "SIGTERM: stopping after the current step" in ended.output
    assert newest_is_sound(folder) == rows(folder)[-1]["iteration"]


LONG = """
import time
import rllib_ragen.starpo as starpo
update = starpo.StarPO._update
def long(self, rows):
    if self.iteration == 1:
        for _ in range(3000): time.sleep(0.1)
    update(self, rows)
starpo.StarPO._update = long
"""


@pytest.mark.slow
def test_SIGINT_twice_stops_in_the_middle_of_a_step(tmp_path: Path) -> None:
    def twice(process: psutil.Process) -> None:
        for _ in range(2):
            time.sleep(3)
            os.killpg(process.pid, signal.SIGINT)

    ended, folder = hurt(tmp_path, AtIteration(1, twice), *EVERY, patch=LONG)
    assert_told(ended, ExitCode.INTERRUPTED, "Stopped at once", folder)
    assert newest_is_sound(folder) == 1
    assert ended.seconds < 60


def test_a_dead_learner_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    ended, folder = hurt(tmp_path, AtIteration(2, kill(LEARNER)), *EVERY, "learner.num_learners=1")
    assert_told(ended, ExitCode.WORKERS_LOST, "learner 0 of 1 died during", folder)
    assert newest_is_sound(folder) >= 1
    assert (folder / "error.txt").is_file()


@pytest.mark.slow
def test_one_dead_learner_of_two_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    ended, folder = hurt(tmp_path, AtIteration(2, kill(LEARNER)), *EVERY, "learner.num_learners=2")
    assert_told(ended, ExitCode.WORKERS_LOST, "of 2 died during", folder)
    assert newest_is_sound(folder) >= 1


@pytest.mark.slow
def test_a_hung_learner_is_told_and_ends_the_run(tmp_path: Path) -> None:
    settings = (*EVERY, "learner.num_learners=1", "fault.report_after_s=5", "fault.hang_timeout_s=25")
    ended, folder = hurt(tmp_path, AtIteration(2, kill(LEARNER, signal.SIGSTOP)), *settings)
    assert "waiting 5 s for: " in ended.output
    assert_told(ended, ExitCode.HUNG, "nothing has moved for 25 s (fault.hang_timeout_s) while waiting for: ", folder)
    assert "of 1 learner(s)" in ended.output
    assert "ray.get" in (folder / "hang.txt").read_text() or "wait" in (folder / "hang.txt").read_text()
    assert newest_is_sound(folder) >= 1


@pytest.mark.slow
def test_a_stopped_runner_is_told_and_replaced(tmp_path: Path) -> None:
    def stop_then_end(process: psutil.Process) -> None:
        actors(process, RUNNER)[0].send_signal(signal.SIGSTOP)

    settings = ("rollout.num_env_runners=1", "fault.report_after_s=5", "fault.hang_timeout_s=15", "iterations=4")
    ended, folder = hurt(tmp_path, AtIteration(2, stop_then_end), *settings)
    assert ended.code == 0, ended.output
    assert "waiting 5 s for: " in ended.output
    found = rows(folder)
    assert [row["iteration"] for row in found] == [1, 2, 3, 4]
    assert sum(row["num_lost_runners"] for row in found) >= 1
    assert all(row["num_groups"] == 2 for row in found)


POISON = """
import rllib_ragen.starpo as starpo, torch
update = starpo.StarPO._update
def poisoned(self, rows):
    update(self, rows)
    if self.iteration == 2:
        next(self.learner_group._learner.module["default_policy"].parameters()).data[0, 0] = float("nan")
starpo.StarPO._update = poisoned
"""


@pytest.mark.slow
def test_N1_weights_that_are_not_finite_end_the_run_and_are_not_saved(tmp_path: Path) -> None:
    ended, folder = hurt(tmp_path, None, *EVERY, patch=POISON)
    assert_told(ended, ExitCode.NOT_FINITE, "of policy version 3 holds numbers that are not finite", folder)
    assert newest_is_sound(folder) == 2


BROKEN = """
from envs.text import TextEnv
def broken(self, action): raise RuntimeError("no such level")
TextEnv.step = broken
"""


@pytest.mark.slow
def test_L1_an_environment_that_always_raises_ends_the_run(tmp_path: Path) -> None:
    ended, folder = hurt(tmp_path, None, "credit.max_empty_updates=2", patch=BROKEN)
    sentence = "2 batches in a row had nothing to learn from: every trajectory failed, the first with: RuntimeError: no"
    assert_told(ended, ExitCode.ENVIRONMENT, sentence, folder)
    assert [row["num_failed"] for row in rows(folder)] == [4, 4]
