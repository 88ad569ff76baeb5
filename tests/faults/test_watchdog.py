"""The watchdog: what is waited for is said, and who gets nowhere is ended."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.faults.watchdog import Watchdog, waiting
from tests.faults.build import TOP


def test_L1_what_is_waited_for_is_said_again_and_again_until_it_moves() -> None:
    said: list[str] = []
    moved = [0]
    with Watchdog(said.append, report_after_s=0.4, hang_timeout_s=60), waiting("the outer thing"):
        with waiting(lambda: f"a runner ({moved[0]} of 3 back)", lambda: moved[0]):
            wait_until(lambda: len(said) == 2)
            moved[0] = 1
            wait_until(lambda: len(said) == 3)
        # The outer wait begins anew: it was not idle while the inner one was.
        time.sleep(0.2)
        assert len(said) == 3
    assert [text.split(" s for: ")[1] for text in said] == ["a runner (0 of 3 back)"] * 2 + ["a runner (1 of 3 back)"]


def test_work_that_beats_is_not_told() -> None:
    from rllib_ragen.faults.heartbeat import beat

    said: list[str] = []
    with Watchdog(said.append, report_after_s=0.5, hang_timeout_s=1), waiting("work"):
        for _ in range(15):
            time.sleep(0.1)
            beat()
    assert said == []


def test_who_has_a_time_limit_of_its_own_is_only_told() -> None:
    said: list[str] = []
    with Watchdog(said.append, report_after_s=0.2, hang_timeout_s=0.4), waiting("a rollout", may_hang=False):
        time.sleep(1.2)
    assert said and all(text.startswith("waiting ") for text in said)


def ended_with(tmp_path: Path, wait: str) -> tuple[int, str, str]:
    """(exit code, output, stacks) of a process that hangs in `wait`."""
    code = f"""
import ctypes, signal, sys, threading, time
from pathlib import Path
from rllib_ragen.faults.interrupt import Interrupt
from rllib_ragen.faults.watchdog import Watchdog, waiting
def deaf():
    while True:
        try: time.sleep(1)
        except KeyboardInterrupt: pass
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TOP, timeout=120)
    stacks = tmp_path / "hang.txt"
    return done.returncode, done.stdout + done.stderr, stacks.read_text() if stacks.exists() else ""


def test_a_hung_wait_is_interrupted(tmp_path: Path) -> None:
    code, output, stacks = ended_with(tmp_path, "threading.Event().wait()")
    assert code == ExitCode.HUNG
    assert "for: Godot" in output and "gave up: nothing has moved for 1 s" in output
    assert "threading.py" in stacks


def test_a_process_that_does_not_react_is_ended(tmp_path: Path) -> None:
    code, output, stacks = ended_with(tmp_path, "deaf()")
    assert code == ExitCode.HUNG
    assert "The process does not react and is ended" in output
    assert "in deaf" in stacks


def test_native_code_that_blocks_the_interpreter_is_ended(tmp_path: Path) -> None:
    # PyDLL keeps the interpreter's lock: no other thread runs, the watchdog's neither.
    code, output, _ = ended_with(tmp_path, "time.sleep(0.8); ctypes.PyDLL(None).sleep(60)")
    assert code == 1
    assert "Timeout (" in output and "most recent call first" in output


def wait_until(condition: object, seconds: float = 20) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_nothing_is_left_after_it() -> None:
    with Watchdog(print, report_after_s=60, hang_timeout_s=60):
        pass
    assert "watchdog" not in [thread.name for thread in threading.enumerate()]
