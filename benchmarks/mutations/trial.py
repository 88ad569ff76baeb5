"""The trial of one module: each change in its own process, against the module's tests."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.mutations.graft import graft
from benchmarks.mutations.named import named_mutations
from benchmarks.mutations.operators import Mutation, mutations
from benchmarks.mutations.plan import NAMED_ONLY

TOP = Path(__file__).parents[2]
CPU_FACTOR, CPU_FLOOR_S = 10, 4
"""A change that makes the tests take ten times their CPU time, and four seconds, goes round in circles: seen."""
TEST_LIMIT_S = 120
"""One that waits for ever uses no CPU time. Wall time depends on what else runs, so a test, which takes a second or
less, has two minutes of it."""
WALL_LIMIT_S = 3600
"""Likewise of what waits for ever where no test's limit can end it."""
_SURVIVED, _SEEN, _ENDLESS = 0, 1, 2
"""Exit codes of a child."""


@dataclass
class Trial:
    """The results of one module's changes."""

    module: str
    tests: int = 0
    """Number of tests for each change."""
    seconds: float = 0.0
    """CPU time of the trial in seconds."""
    number: int = 0
    endless: int = 0
    survivors: list[Mutation] = field(default_factory=list)
    killers: Counter[str] = field(default_factory=Counter)
    """Number of changes that each test saw first."""


def try_module(module: str, test_files: Sequence[str]) -> Trial:
    """Collects the tests once, and then forks for every change. Raises RuntimeError if the module as it is fails."""
    loop = _Loop(module)
    arguments = [
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-m",
        "not slow and not oracle",
        f"--timeout={TEST_LIMIT_S}",
    ]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        code = pytest.main([*arguments, *(str(TOP / "tests" / name) for name in test_files)], plugins=[loop])
    if loop.problem or code:
        raise RuntimeError(f"{module}: {loop.problem or f'pytest ended with {code}; do the tests pass?'}")
    return loop.trial


class _Loop:
    """A pytest plugin in place of its loop over the tests."""

    def __init__(self, module: str) -> None:
        self.trial = Trial(module)
        self.problem = ""
        self._failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records that a test failed."""
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Forks for every change, with the tests that saw most changes so far first."""
        name = f"rllib_ragen.{self.trial.module.removesuffix('.py').replace('/', '.')}"
        module = importlib.import_module(name)
        filename = str(module.__file__)
        source = Path(filename).read_text(encoding="utf-8")
        items, began = [item for item in session.items if not _is_property(item)], _cpu()
        self.trial.tests = len(items)
        # Children share the memory of what is imported as long as their garbage collector does not look at it.
        gc.collect()
        gc.freeze()
        outcome, killer = self._fork(items, name, None, CPU_FLOOR_S * 100)
        if not items or outcome != _SURVIVED or session.testsfailed:
            self.problem = f"unchanged, it fails {killer or 'a test'}" if items else "no tests"
            return True
        limit = max(CPU_FLOOR_S, CPU_FACTOR * (_cpu() - began))
        for mutation in self._changes(source, filename):
            outcome, killer = self._fork(items, name, mutation, limit)
            self.trial.number += 1
            self.trial.endless += outcome == _ENDLESS
            if outcome == _SURVIVED:
                self.trial.survivors.append(mutation)
            elif killer:
                self.trial.killers[killer] += 1
                items.sort(key=lambda item: -self.trial.killers[item.nodeid])
        self.trial.seconds = _cpu() - began
        return True

    def _changes(self, source: str, filename: str) -> Iterator[Mutation]:
        yield from named_mutations(self.trial.module, source, filename)
        if self.trial.module not in NAMED_ONLY:
            yield from mutations(source, filename)

    def _fork(self, items: list[pytest.Item], module: str, mutation: Mutation | None, limit: float) -> tuple[int, str]:
        """Runs the tests on one change in a child process → (result, the test that saw the change)."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
            killer = self._run(items, module, mutation)
            os.write(writing, killer.encode())
            os._exit(_SEEN if killer else _SURVIVED)
        os.close(writing)
        status = _wait(child)
        with os.fdopen(reading, encoding="utf-8") as said:
            killer = said.read()
        if os.WIFSIGNALED(status):
            return (_ENDLESS if os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL) else _SEEN), ""
        return os.WEXITSTATUS(status), killer

    def _run(self, items: list[pytest.Item], module: str, mutation: Mutation | None) -> str:
        """Runs the tests in the child → the first test that fails, or ''."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            if mutation is not None:
                graft(sys.modules[module], mutation.code, mutation.names)
        except Exception:
            return "import"
        self._failed = False
        for item, following in zip(items, [*items[1:], None], strict=True):
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except BaseException:
                return item.nodeid
            if self._failed:
                return item.nodeid
        return ""


def _is_property(item: pytest.Item) -> bool:
    """Returns whether a test is a property test: slow, and changes are better seen by a handwritten example."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def _wait(child: int) -> int:
    """Waits for the child → its exit status; it is killed at the wall limit."""
    deadline = time.monotonic() + WALL_LIMIT_S
    pause = 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)


def _cpu() -> float:
    """Returns the CPU seconds of this process and of the children that it has waited for."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
