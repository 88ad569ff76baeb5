"""The watchdog: what is waited for is said, and who gets nowhere is ended."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rllib_ragen.faults import watchdog
from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.faults.heartbeat import beat
from rllib_ragen.faults.watchdog import Watchdog, waiting
from tests.faults.build import TOP
from tests.patience import PATIENCE_S, wait_until


class Clock:
    """The watchdog's clock, put forward by hundreds of seconds: how long a test itself takes does not matter."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def monotonic(self) -> float:
        """As time.monotonic."""
        return time.monotonic() + self._ahead

    def pass_time(self, dog: Watchdog, seconds: float) -> None:
        """Puts the clock forward, and lets the watchdog look."""
        self._ahead += seconds
        for wait in watchdog._innermost():
            dog._look(wait)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watchdog, "time", clock)
    return clock


def test_L1_what_is_waited_for_is_said_again_and_again_until_it_moves(clock: Clock) -> None:
    said: list[str] = []
    moved = [0]
    dog = Watchdog(said.append, report_after_s=1000, hang_timeout_s=1e6)
    with waiting("the outer thing"):
        clock.pass_time(dog, 900)
        with waiting(lambda: f"a runner ({moved[0]} of 3 back)", lambda: moved[0]):
            for seconds in (0, 1100, 500, 500):
                clock.pass_time(dog, seconds)
            assert len(said) == 2, "after the time and after twice the time"
            moved[0] = 1
            for seconds in (0, 900, 200):
                clock.pass_time(dog, seconds)
        # The outer wait begins anew: it was not idle while the inner one was.
        clock.pass_time(dog, 900)
    runner = "waiting {} s for: a runner ({} of 3 back)"
    assert [re.sub(r"\d\d s", "00 s", text) for text in said] == [
        runner.format(1100, 0),
        runner.format(2100, 0),
        runner.format(1100, 1),
    ]


def test_work_that_beats_is_not_told(clock: Clock) -> None:
    said: list[str] = []
    dog = Watchdog(said.append, report_after_s=1000, hang_timeout_s=2000)
    with waiting("work"):
        for _ in range(15):
            clock.pass_time(dog, 900)
            beat()
    assert said == [] and dog.hung == ""


def test_who_has_a_time_limit_of_its_own_is_only_told(clock: Clock) -> None:
    said: list[str] = []
    dog = Watchdog(said.append, report_after_s=1000, hang_timeout_s=2000)
    with waiting("a rollout", may_hang=False):
        for _ in range(10):
            clock.pass_time(dog, 1000)
    assert said and all(text.startswith("waiting ") for text in said) and dog.hung == ""


def test_the_thread_looks_at_what_is_waited_for() -> None:
    said: list[str] = []
    with Watchdog(said.append, report_after_s=0.2, hang_timeout_s=1e6), waiting("a slow thing"):
        wait_until(lambda: said, "the watchdog says something")
    assert re.fullmatch(r"waiting \d+ s for: a slow thing", said[0])


def ended_with(tmp_path: Path, wait: str) -> tuple[int, str, str]:
    """(exit code, output, stacks) of a process that hangs in `wait`."""
    code = f"""
import ctypes, faulthandler, signal, sys, threading, time
from pathlib import Path
from rllib_ragen.faults.heartbeat import beat
from rllib_ragen.faults.interrupt import Interrupt
from rllib_ragen.faults.watchdog import Watchdog, waiting
def deaf():
    while True:
        try: time.sleep(1)
        except KeyboardInterrupt: pass
armed, arm = threading.Event(), faulthandler.dump_traceback_later
def told(*arguments, **settings):
    arm(*arguments, **settings)
    armed.set()
faulthandler.dump_traceback_later = told
def block():
    while not armed.wait(0.01): beat()
    # PyDLL keeps the interpreter's lock: no other thread runs, the watchdog's neither.
    ctypes.PyDLL(None).sleep(600)
say = lambda text: print(text, flush=True)
stacks = Path({str(tmp_path / "hang.txt")!r})
with Interrupt(say) as interrupt:
    with Watchdog(say, report_after_s=0.5, hang_timeout_s=1, stacks=stacks, on_hang=interrupt.give_up) as dog:
        try:
            with waiting("Godot"):
                {wait}
        except KeyboardInterrupt:
            say("gave up: " + dog.hung)
            sys.exit(4)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TOP, timeout=PATIENCE_S)
    stacks = tmp_path / "hang.txt"
    return done.returncode, done.stdout + done.stderr, stacks.read_text() if stacks.exists() else ""


def test_a_hung_wait_is_interrupted(tmp_path: Path) -> None:
    code, output, stacks = ended_with(tmp_path, "threading.Event().wait()")
    assert code == ExitCode.HUNG
    assert re.search(r"gave up: nothing has moved for \d+ s .* while waiting for: Godot", output)
    assert "threading.py" in stacks


def test_a_process_that_does_not_react_is_ended(tmp_path: Path) -> None:
    code, output, stacks = ended_with(tmp_path, "deaf()")
    assert code == ExitCode.HUNG
    assert "The process does not react and is ended" in output
    assert "in deaf" in stacks


def test_native_code_that_blocks_the_interpreter_is_ended(tmp_path: Path) -> None:
    code, output, _ = ended_with(tmp_path, "block()")
    assert code == 1
    assert "Timeout (" in output and "most recent call first" in output


def test_nothing_is_left_after_it() -> None:
    with Watchdog(print, report_after_s=60, hang_timeout_s=60):
        pass
    assert "watchdog" not in [thread.name for thread in threading.enumerate()]
