"""The driver: signals, a kill, a learner that dies or hangs, weights that break. Real processes, real signals."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.types import TokenRow
from tests.faults.build import LEARNER, RUNNER, SMALL, AtIteration, Ended, kill, newest_is_sound, rows, run
from tests.faults.conftest import Hurt

EVERY = "checkpoint_interval=1"
UPDATING = "the second update has begun"


def assert_told(ended: Ended, code: ExitCode, sentence: str, folder: Path) -> None:
    """One sentence, the resume command, the exit code; no traceback on the screen."""
    assert ended.code == code, ended.output
    assert sentence in ended.output
    assert ended.output.count("Stopped") == 1
    assert f"To go on: python -m rllib_ragen.run --resume {folder}" in ended.output
    assert not re.search("^Traceback", ended.output, re.MULTILINE)


@pytest.mark.usefixtures("local_ray")
def test_R1_a_killed_driver_leaves_no_process_and_is_resumed(tmp_path: Path) -> None:
    """With a Ray of its own; the tests' Ray is there because runs that are forked later must know how to reach it."""
    folder = tmp_path / "results" / "run"
    where = ("--results-dir", str(folder.parent), "--name", folder.name)
    act = AtIteration(3, lambda process: process.kill())
    ended = run(*SMALL, EVERY, *where, act=act)
    assert ended.code == -signal.SIGKILL, ended.output
    saved = newest_is_sound(folder)
    assert saved in (2, 3), "the last interval, or the one before if the kill came while it was saved"
    resumed = run("--resume", str(folder), "--iterations", str(saved + 2))
    assert resumed.code == 0, resumed.output
    assert [row["iteration"] for row in rows(folder)] == list(range(1, saved + 3)), "each iteration once"
    assert ended.left == [], "processes outlive the run"


def test_SIGTERM_saves_and_exits_143(hurt: Hurt) -> None:
    ended, folder = hurt(AtIteration(2, lambda process: os.kill(process.pid, signal.SIGTERM)))
    assert_told(ended, ExitCode.TERMINATED, "SIGTERM: stopping after the current step", folder)
    assert newest_is_sound(folder) == rows(folder)[-1]["iteration"]


def long_update() -> None:
    from rllib_ragen.starpo.algorithm import StarPO

    update = StarPO._update

    def slow(self: StarPO, rows: Sequence[TokenRow]) -> None:
        if self.iteration == 1:
            print(UPDATING, flush=True)
        while self.iteration == 1:
            time.sleep(0.1)
        update(self, rows)

    StarPO._update = slow  # type: ignore[method-assign]


class Twice(AtIteration):
    """Interrupts in the middle of a step, and again when that is answered."""

    def __init__(self) -> None:
        super().__init__(0, lambda process: None)

    def __call__(self, line: str, process: psutil.Process) -> None:
        if UPDATING in line or "SIGINT: stopping after the current step" in line:
            self.at = time.monotonic()
            process.send_signal(signal.SIGINT)


def test_SIGINT_twice_stops_in_the_middle_of_a_step(hurt: Hurt) -> None:
    ended, folder = hurt(Twice(), EVERY, patch=long_update)
    assert_told(ended, ExitCode.INTERRUPTED, "Stopped at once", folder)
    assert newest_is_sound(folder) == 1


def test_a_dead_learner_ends_the_run_with_its_reason(hurt: Hurt) -> None:
    ended, folder = hurt(AtIteration(2, kill(LEARNER)), EVERY, "learner.num_learners=1")
    assert_told(ended, ExitCode.WORKERS_LOST, "learner 0 of 1 died during", folder)
    assert newest_is_sound(folder) >= 1
    assert (folder / "error.txt").is_file()


@pytest.mark.slow
def test_one_dead_learner_of_two_ends_the_run_with_its_reason(hurt: Hurt) -> None:
    ended, folder = hurt(AtIteration(2, kill(LEARNER)), EVERY, "learner.num_learners=2")
    assert_told(ended, ExitCode.WORKERS_LOST, "of 2 died during", folder)
    assert newest_is_sound(folder) >= 1


@pytest.mark.slow
def test_L1_a_hung_learner_is_told_and_ends_the_run(hurt: Hurt) -> None:
    settings = (EVERY, "learner.num_learners=1", "fault.report_after_s=5", "fault.hang_timeout_s=60")
    ended, folder = hurt(AtIteration(2, kill(LEARNER, signal.SIGSTOP)), *settings)
    assert "waiting 5 s for: " in ended.output
    assert_told(ended, ExitCode.HUNG, "(fault.hang_timeout_s) while waiting for: ", folder)
    assert "of 1 learner(s)" in ended.output
    assert "MainThread" in (folder / "hang.txt").read_text() or "Thread 0x" in (folder / "hang.txt").read_text()
    assert newest_is_sound(folder) >= 1


@pytest.mark.slow
def test_L1_a_stopped_runner_is_told_and_replaced(hurt: Hurt) -> None:
    settings = ("rollout.num_env_runners=1", "fault.report_after_s=5", "fault.hang_timeout_s=60", "iterations=4")
    ended, folder = hurt(AtIteration(2, kill(RUNNER, signal.SIGSTOP)), *settings)
    assert ended.code == 0, ended.output
    assert "waiting 5 s for: " in ended.output
    found = rows(folder)
    assert [row["iteration"] for row in found] == [1, 2, 3, 4]
    assert sum(row["num_lost_runners"] for row in found) >= 1
    assert all(row["num_groups"] == 2 for row in found)


def slow_ray() -> None:
    """Ray's processes are seen only 45 s from now."""
    import ray._private.services as services

    get_node, began = services.get_node, time.monotonic()

    def late(*args: Any) -> Any:
        if time.monotonic() - began < 45:
            raise RuntimeError("not seen yet")
        return get_node(*args)

    services.get_node = late


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_a_ray_that_starts_too_slowly_is_started_again(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "run"
    where = ("--results-dir", str(folder.parent), "--name", folder.name)
    ended = run(*SMALL, "iterations=1", *where, "--iterations", "1", patch=slow_ray)
    assert ended.code == 0, ended.output
    assert ended.output.count("Ray did not start within 30 s (a busy machine?): once more") == 1
    assert [row["iteration"] for row in rows(folder)] == [1]


def poisoned_update() -> None:
    from rllib_ragen.starpo.algorithm import StarPO

    update = StarPO._update

    def poison(self: StarPO, rows: Sequence[TokenRow]) -> None:
        update(self, rows)
        if self._counters.iteration == 2:
            next(self.learner_group._learner.module["default_policy"].parameters()).data[0, 0] = float("nan")

    StarPO._update = poison  # type: ignore[method-assign]


def test_N1_weights_that_are_not_finite_end_the_run_and_are_not_saved(hurt: Hurt) -> None:
    ended, folder = hurt(None, EVERY, patch=poisoned_update)
    assert_told(ended, ExitCode.NOT_FINITE, "of policy version 3 holds numbers that are not finite", folder)
    assert newest_is_sound(folder) == 2


def broken_environment() -> None:
    from ragen_envs.text import TextEnv

    def broken(self: TextEnv, action: str) -> Any:
        raise RuntimeError("no such level")

    TextEnv.step = broken  # type: ignore[method-assign]


def test_L1_an_environment_that_always_raises_ends_the_run(hurt: Hurt) -> None:
    ended, folder = hurt(None, "credit.max_empty_updates=2", patch=broken_environment)
    sentence = "2 batches in a row had nothing to learn from: every trajectory failed, the first with: RuntimeError: no"
    assert_told(ended, ExitCode.ENVIRONMENT, sentence, folder)
    assert [row["num_failed"] for row in rows(folder)] == [4, 4]


def no_memory() -> None:
    import torch

    from rllib_ragen.starpo.algorithm import StarPO

    update = StarPO._update

    def greedy(self: StarPO, rows: Sequence[TokenRow]) -> None:
        update(self, rows)
        if self._counters.iteration == 1:
            torch.empty(1 << 50)

    StarPO._update = greedy  # type: ignore[method-assign]


@pytest.mark.slow
def test_L6_a_driver_out_of_memory_ends_the_run(hurt: Hurt) -> None:
    ended, folder = hurt(None, EVERY, patch=no_memory)
    assert_told(ended, ExitCode.MEMORY, "the driver got no more memory: ", folder)
    assert newest_is_sound(folder) == 1
