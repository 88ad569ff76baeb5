"""Runs of the command in processes of their own, and ways to hurt them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

TOP = Path(__file__).parents[2]
SMALL = (
    *("--env", "bandit", "--engine", "hf", "--num-groups", "2", "--group-size", "2", "--iterations", "1000000"),
    *("--set", "eval.interval=0", "eval.num_test_instances=0", "diagnostics.interval=0", "learner.torch_threads=1"),
)
"""A run without end; `key=value` may follow."""
RUNNER, LEARNER = "LLMEnvRunner", "_WrappedExecutable"
"""In the titles of Ray's processes."""


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    code: int
    output: str
    seconds: float
    """From the moment that it was hurt."""
    left: list[str]
    """Command lines of processes that it left behind."""


class AtIteration:
    """Hurts the run once, when an iteration is done."""

    def __init__(self, number: int, hurt: Callable[[psutil.Process], object]) -> None:
        self._number, self._hurt = str(number), hurt
        self.at = 0.0
        """When; monotonic."""

    def __call__(self, line: str, process: psutil.Process) -> None:
        """Looks at a line of the output."""
        if not self.at and line.startswith("iteration") and line.split()[1].split("/")[0] == self._number:
            self.at = time.monotonic()
            self._hurt(process)


def kill(kind: str, number: int = signal.SIGKILL) -> Callable[[psutil.Process], None]:
    """Sends a signal to the first of the run's actors of a kind."""
    return lambda process: actors(process, kind)[0].send_signal(number)


def run(*arguments: str, act: AtIteration | None = None, patch: str = "", timeout_s: float = 400) -> Ended:
    """The command, in a session of its own.

    Args:
        arguments: as on the command line.
        act: what is done to it.
        patch: Python that runs first in the process: how something in it is broken.
        timeout_s: then it is killed, and the test fails.
    """
    code = f"import sys\n{patch}\nfrom rllib_ragen.run import main\nsys.exit(main({list(arguments)!r}))"
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    process = psutil.Popen(
        [sys.executable, "-c", code], cwd=TOP, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    lines: list[str] = []
    family: dict[int, psutil.Process] = {}
    with killed_after(process, timeout_s):
        for line in process.stdout:
            lines.append(line)
            family |= {one.pid: one for one in children(process)}
            if act is not None:
                act(line, process)
        returned = process.wait()
    ended = time.monotonic()
    _, alive = psutil.wait_procs(family.values(), timeout=20)
    left = [" ".join(cmdline(one)) for one in alive]
    for one in alive:
        one.kill()
    return Ended(returned, "".join(lines), ended - act.at if act else 0.0, left)


@contextmanager
def killed_after(process: psutil.Popen, timeout_s: float) -> Iterator[None]:
    """A watchdog for the tests of the watchdog."""
    timer = threading.Timer(timeout_s, lambda: [one.kill() for one in [*children(process), process]])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def children(process: psutil.Process) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found


def cmdline(process: psutil.Process) -> list[str]:
    try:
        found: list[str] = process.cmdline()
    except psutil.NoSuchProcess:
        return []
    return found


def actors(process: psutil.Process, kind: str) -> list[psutil.Process]:
    """Ray's processes of a run whose title names `kind`."""
    return [one for one in children(process) if any(kind in word for word in cmdline(one)[:1])]


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


def newest_is_sound(folder: Path) -> int:
    """Reads the newest checkpoint as a resumed run does; its iteration."""
    import numpy as np

    from rllib_ragen.checkpoint import load_learner_state
    from rllib_ragen.run_folder import RunFolder

    newest = RunFolder.open(folder).newest_checkpoint()
    state = load_learner_state(newest.path)
    assert all(np.isfinite(array).all() for module in state["rl_module"].values() for array in module.values())
    return newest.iteration
