"""Ctrl-C and SIGTERM: the first asks the run to stop after its current step, the second stops it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from rllib_ragen.faults.exit_codes import ExitCode


class Interrupt:
    """A context in which SIGINT and SIGTERM set `requested`; a second one raises KeyboardInterrupt."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.requested = False
        self.given_up = False
        """A stop was forced by `give_up`, and not by the user."""
        self.exit_code = ExitCode.INTERRUPTED
        self._say = say
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Interrupt:
        self.install()
        return self

    def install(self) -> None:
        """Installs the signal handlers; again after Ray's start, which takes SIGTERM. Only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            previous = signal.signal(number, self._handle)
            self._previous.setdefault(number, previous)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def give_up(self) -> None:
        """Raises KeyboardInterrupt in the main thread, whatever it waits for. Call it from another thread."""
        self.requested = self.given_up = True
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGINT)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        if number == signal.SIGTERM:
            self.exit_code = ExitCode.TERMINATED
        text = f"{signal.Signals(number).name}: stopping after the current step (once more: at once)"
        try:
            self._say(text)
        except RuntimeError:
            # The signal came while a line was being written, and Python's buffers take no second writer.
            os.write(2, f"{text}\n".encode())
