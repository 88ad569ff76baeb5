"""Ctrl-C and SIGTERM: the first asks the run to stop after its current step, the second stops it at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType


class Interrupt:
    """A context in which SIGINT and SIGTERM set `requested`; a second one raises KeyboardInterrupt."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.requested = False
        self._say = say
        self._previous: dict[int, object] = {}

    def __enter__(self) -> Interrupt:
        self.install()
        return self

    def install(self) -> None:
        """Takes the signals over (again: Ray takes SIGTERM when it starts)."""
        for number in (signal.SIGINT, signal.SIGTERM):
            previous = signal.signal(number, self._handle)
            self._previous.setdefault(number, previous)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._say(f"{signal.Signals(number).name}: stopping after the current step (once more: at once)")
