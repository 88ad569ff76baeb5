"""Runs of the command in processes of their own, and ways to hurt them."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from tests.patience import PATIENCE_S

TOP = Path(__file__).parents[2]
SMALL = (
    *("--env", "bandit", "--engine", "hf", "--num-groups", "2", "--group-size", "2", "--iterations", "1000000"),
    *("--set", "eval.interval=0", "eval.num_test_instances=0", "diagnostics.interval=0", "learner.torch_threads=1"),
)
"""A run without end; `key=value` may follow."""
RUNNER, LEARNER = "LLMEnvRunner", "_WrappedExecutable"
"""In the titles of Ray's processes."""
_PRELOADED = [
    "rllib_ragen.run.loop",
    "rllib_ragen.starpo.algorithm",
    "rllib_ragen.rollout.env_runner",
    "torch.utils.tensorboard",
]


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    code: int
    """Negative: the signal that killed it."""
    output: str
    seconds: float
    """From the moment that it was hurt."""
    family: tuple[psutil.Process, ...]
    """Everything that it started."""

    @cached_property
    def left(self) -> list[str]:
        """Titles of processes that it left behind: waits for them to end, and tells which do not."""
        # Agents of a Ray whose driver was killed need the better part of a minute to notice, on a busy machine more.
        _, alive = psutil.wait_procs([one for one in self.family if is_ours(one)], timeout=PATIENCE_S)
        return [title(one) for one in alive if is_ours(one)]


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


def run(
    *arguments: str,
    address: str = "",
    act: AtIteration | None = None,
    patch: Callable[[], None] | None = None,
    timeout_s: float = PATIENCE_S,
) -> Ended:
    """The command, in a session of its own.

    Args:
        arguments: as on the command line.
        address: of the Ray that it uses; empty: it starts one.
        act: what is done to it.
        patch: how something in it is broken; runs first in its process. A function of a module's top level.
        timeout_s: then it is killed, and the test fails.
    """
    # Imports are most of a small run's time: they are made once, and each run is forked from there.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    reader, writer = context.Pipe(duplex=False)
    child = context.Process(target=_main, args=(arguments, writer, address, patch))
    child.start()
    writer.close()
    process = psutil.Process(child.pid)
    lines: list[str] = []
    family: dict[int, psutil.Process] = {}
    with _killed_after(process, timeout_s), os.fdopen(os.dup(reader.fileno()), encoding="utf-8") as output:
        for line in output:
            lines.append(line)
            family |= {one.pid: one for one in members(process)}
            if act is not None:
                act(line, process)
        child.join()
    ended = time.monotonic()
    assert child.exitcode is not None
    return Ended(child.exitcode, "".join(lines), ended - act.at if act else 0.0, tuple(family.values()))


def _main(arguments: tuple[str, ...], writer: Connection, address: str, patch: Callable[[], None] | None) -> None:
    os.dup2(writer.fileno(), 1)
    os.dup2(writer.fileno(), 2)
    writer.close()
    os.setsid()
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", buffering=1)
    os.chdir(TOP)
    os.environ.pop("RAY_ADDRESS", None)
    # Workers for tasks, of which there are none.
    os.environ["RAY_prestart_worker_first_driver"] = "0"  # noqa: SIM112
    if address:
        os.environ["RAY_ADDRESS"] = address
    if patch is not None:
        patch()
    from rllib_ragen.run.__main__ import main

    sys.exit(main(arguments))


@contextmanager
def _killed_after(process: psutil.Process, timeout_s: float) -> Iterator[None]:
    timer = threading.Timer(timeout_s, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def members(process: psutil.Process) -> list[psutil.Process]:
    """What the run has started: its own processes, and its actors in this test's Ray."""
    try:
        own = process.children(recursive=True)
        young = [one for one in psutil.Process().children(recursive=True) if one.create_time() > process.create_time()]
    except psutil.NoSuchProcess:
        return []
    return [*own, *(one for one in young if is_actor(one))]


def actors(process: psutil.Process, kind: str) -> list[psutil.Process]:
    """The run's actors whose title names `kind`."""
    # Not by their age: Ray may make an actor of a worker that was there before the run.
    return [one for one in psutil.Process().children(recursive=True) if kind in title(one)]


def title(process: psutil.Process) -> str:
    """The first word of the command line, which Ray sets to what an actor is; of a process that is gone, empty."""
    try:
        return str((process.cmdline() or [""])[0])
    except psutil.NoSuchProcess:
        return ""


def is_actor(process: psutil.Process) -> bool:
    """Whether it is one of our actors."""
    return any(kind in title(process) for kind in (RUNNER, LEARNER))


def is_ours(process: psutil.Process) -> bool:
    """Still an actor, or a part of a Ray that the run has started; workers of a shared Ray may be idle for a while."""
    return bool(title(process)) and title(process) != "ray::IDLE" and process.status() != psutil.STATUS_ZOMBIE


def rows(folder: Path) -> list[dict[str, Any]]:
    """What progress.jsonl holds."""
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


def newest_is_sound(folder: Path) -> int:
    """Reads the newest checkpoint as a resumed run does; its iteration."""
    import numpy as np

    from rllib_ragen.run.folder import RunFolder
    from rllib_ragen.starpo.checkpoint.save import load_learner_state

    newest = RunFolder.open(folder).newest_checkpoint()
    state = load_learner_state(newest.path)
    assert all(np.isfinite(array).all() for module in state["rl_module"].values() for array in module.values())
    return newest.iteration
