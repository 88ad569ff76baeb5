"""The watchdog: a thread that reports what a run is waiting for, and ends a run without progress.

    with Watchdog(print, report_after_s=60, hang_timeout_s=1800):
        with waiting("the update on 2 learners", pulse):
            ...

Code that waits does so inside `waiting`; the innermost wait of each thread counts, and its time restarts whenever its
pulse changes.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.faults.heartbeat import own

_LONGEST_GRACE_S = 60.0
"""Longest wait in seconds for a hung thread to give up by itself before the process is ended: chosen freely."""


def on_stderr(text: str) -> None:
    """Prints to stderr: the watchdog's voice in commands without a display."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class _Wait:
    what: Callable[[], str]
    pulse: Callable[[], object]
    may_hang: bool
    last: object = None
    since: float = field(default_factory=time.monotonic)
    told: int = 0
    """Number of reports since the last progress."""


class Watchdog:
    """A context that watches this process's waits. Only one can be active.

    After `report_after_s` without progress it reports the wait, again after twice that time, and so on. After
    `hang_timeout_s` it reports a hang, sets `hung`, writes the stacks of all threads to `stacks`, and calls `on_hang`,
    which should make the waiting thread give up. If that does not help within a minute (or `hang_timeout_s`, if
    shorter), or there is no `on_hang`, the process exits with ExitCode.HUNG. If native code blocks the interpreter
    itself, faulthandler ends the process with exit code 1.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        report_after_s: float,
        hang_timeout_s: float,
        stacks: Path | None = None,
        on_hang: Callable[[], None] | None = None,
        last_words: Callable[[], str] = str,
    ) -> None:
        """`last_words`: report before the process is ended; the other arguments are described above."""
        self.hung = ""
        """Why the run was given up, or empty."""
        self._say = say
        self._report_after_s, self._hang_timeout_s = report_after_s, hang_timeout_s
        self._grace_s = min(_LONGEST_GRACE_S, hang_timeout_s)
        self._stacks, self._on_hang, self._last_words = stacks, on_hang, last_words
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        every_s = min(1.0, self._report_after_s / 4, self._hang_timeout_s / 4)
        try:
            while not self._stop.wait(every_s):
                # Fires only if this thread does not get to run any more.
                faulthandler.dump_traceback_later(
                    self._hang_timeout_s + self._grace_s, exit=True, file=sys.__stderr__ or 2
                )
                for wait in _innermost():
                    self._look(wait)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _look(self, wait: _Wait) -> None:
        now, pulse = time.monotonic(), wait.pulse()
        if pulse != wait.last:
            wait.last, wait.since, wait.told = pulse, now, 0
        idle_s = now - wait.since
        if wait.may_hang and idle_s >= self._hang_timeout_s:
            self._give_up(wait, idle_s)
        elif idle_s >= self._report_after_s * 2**wait.told:
            wait.told += 1
            self._say(f"waiting {idle_s:.0f} s for: {wait.what()}")

    def _give_up(self, wait: _Wait, idle_s: float) -> None:
        self.hung = f"nothing has moved for {idle_s:.0f} s (fault.hang_timeout_s) while waiting for: {wait.what()}"
        if self._stacks is not None:
            with self._stacks.open("w", encoding="utf-8") as file:
                faulthandler.dump_traceback(file, all_threads=True)
        if self._on_hang is not None:
            self._on_hang()
            if self._stop.wait(self._grace_s):
                return
        self._say(f"Stopped: {self.hung}. The process does not react and is ended. {self._last_words()}")
        os._exit(ExitCode.HUNG)


_waits: dict[int, list[_Wait]] = {}
"""Waits by thread, outermost first."""


@contextmanager
def waiting(
    what: str | Callable[[], str], pulse: Callable[[], object] = own, *, may_hang: bool = True
) -> Iterator[None]:
    """Reports to the watchdog, if there is one, what this thread waits for.

    Args:
        what: returns a noun phrase for the report.
        pulse: returns a value that changes with progress; called every second, from another thread. Default: this
        process's heartbeat.
        may_hang: False: the wait is reported, but never a hang, because it has a time limit of its own.
    """
    stack = _waits.setdefault(threading.get_ident(), [])
    text = what
    stack.append(_Wait((lambda: text) if isinstance(text, str) else text, pulse, may_hang))
    try:
        yield
    finally:
        stack.pop()
        if stack:
            stack[-1].since, stack[-1].told = time.monotonic(), 0
        else:
            _waits.pop(threading.get_ident(), None)


def _innermost() -> list[_Wait]:
    return [stack[-1] for stack in list(_waits.values()) if stack]
