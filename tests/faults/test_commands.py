"""`play` and `tournament` wait for nothing in silence either; for a person they wait as long as it takes."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rllib_ragen.faults.exit_codes import ExitCode
from tests.faults.build import TOP
from tests.patience import PATIENCE_S, wait_until

_HUNG_ENGINE = """
import time
from rllib_ragen.rollout.engines.hf import HFEngine
HFEngine.poll = lambda self: time.sleep(10**6)
"""
_COMMAND = """
import sys
from rllib_ragen.faults.ending import leave
from rllib_ragen.{command} import main
leave(lambda: main(sys.argv[1:]))
"""
_TIMES = ("fault.report_after_s=1", "fault.hang_timeout_s=4")
COMMANDS = {
    "play.__main__": (("--env", "sokoban", "--policy", "tiny"), "the episode"),
    "tournament.__main__": (("tiny", "--env", "tic_tac_toe", "--plays", "2"), "12 games"),
}


def start(command: str, patch: str, *words: str) -> subprocess.Popen[str]:
    """The command in a process of its own, in which something is broken."""
    program = [sys.executable, "-c", patch + _COMMAND.format(command=command), *words]
    return subprocess.Popen(
        program, cwd=TOP, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hung_command_is_told_and_ended(command: str, tmp_path: Path) -> None:
    words, what = COMMANDS[command]
    out = ("--out", str(tmp_path / "found.json")) if "tournament" in command else ()
    process = start(command, _HUNG_ENGINE, *words, *out, "--set", *_TIMES)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == ExitCode.HUNG, output
    assert re.search(rf"waiting \d+ s for: {what}", output), output
    assert output.count("Stopped: nothing has moved for") == 1
    assert not re.search("^Traceback", output, re.MULTILINE)


def test_a_person_may_take_longer_than_anything_may_hang() -> None:
    limits = ("fault.report_after_s=5", "fault.hang_timeout_s=5")
    process = start("play.__main__", "", "--env", "sokoban", "--set", *limits)
    assert process.stdout is not None
    assert process.stdin is not None
    shown = []
    for line in process.stdout:
        shown.append(line)
        if line.startswith("Answer with"):
            break
    asked = time.monotonic()
    wait_until(lambda: time.monotonic() > asked + 8, "more has passed than anything may hang")
    process.stdin.write("Up\n")
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert "[assistant]" in output and "waiting" not in output and "Stopped" not in output
    assert output.splitlines()[-1].startswith("stopped before the end")
