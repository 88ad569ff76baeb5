"""A call in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """A call that runs in its own thread, started at once; `result` waits for it."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        # A daemon: a run that is interrupted while it samples must be able to end.
        threading.Thread(target=self._run, args=(call,), name="background", daemon=True).start()

    def result(self) -> T:
        """Waits for the call → its result. Raises what it raised."""
        return self._future.result()

    def _run(self, call: Callable[[], T]) -> None:
        try:
            self._future.set_result(call())
        except BaseException as error:
            self._future.set_exception(error)
