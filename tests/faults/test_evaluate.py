"""`evaluate` waits for nothing in silence either, and ends in one sentence."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from rllib_ragen.faults.exit_codes import ExitCode
from tests.faults.build import TOP
from tests.patience import PATIENCE_S

_HUNG_ENGINE = """
import time
from rllib_ragen.rollout.engines.hf import HFEngine
HFEngine.poll = lambda self: (print("polling", flush=True), time.sleep(600))
"""
_BROKEN_ENVIRONMENT = """
from ragen_envs.text import TextEnv
TextEnv.step = lambda self, action: {}["no such level"]
"""
_EVALUATE = """
import sys
from rllib_ragen.evaluate.__main__ import main
sys.exit(main(sys.argv[1:]))
"""
_TIMES = ("--set", "fault.report_after_s=2", "learner.torch_threads=1")
_WHAT = ("tiny", "--env", "bandit", "--engine", "hf", "--num-instances", "8", *_TIMES)


def start(patch: str, results: Path, *settings: str) -> subprocess.Popen[str]:
    """An evaluation in which something is broken."""
    command = [sys.executable, "-c", patch + _EVALUATE, *_WHAT, f"results_dir={results}", *settings]
    return subprocess.Popen(command, cwd=TOP, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_a_hung_evaluation_is_told_and_ended(tmp_path: Path) -> None:
    output, _ = (process := start(_HUNG_ENGINE, tmp_path, "fault.hang_timeout_s=6")).communicate(timeout=PATIENCE_S)
    assert process.returncode == ExitCode.HUNG, output
    assert "for: rollout of 8 trajectories" in output
    assert output.count("Stopped: nothing has moved for") == 1
    assert not re.search("^Traceback", output, re.MULTILINE)


def test_SIGINT_ends_an_evaluation_in_one_sentence(tmp_path: Path) -> None:
    process = start(_HUNG_ENGINE, tmp_path)
    assert process.stdout is not None
    assert any("polling" in line for line in process.stdout), "it has begun"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == ExitCode.INTERRUPTED, output
    assert "rllib_ragen: interrupted" in output
    assert not re.search("^Traceback", output, re.MULTILINE)


def test_an_evaluation_without_an_episode_is_an_error_with_its_reason(tmp_path: Path) -> None:
    output, _ = (process := start(_BROKEN_ENVIRONMENT, tmp_path)).communicate(timeout=PATIENCE_S)
    assert process.returncode == ExitCode.ENVIRONMENT, output
    assert "every one of the 8 episodes failed: KeyError: 'no such level'" in output
    assert not re.search("^Traceback", output, re.MULTILINE)
