"""Environments that are reused across episodes, each in its own thread if there is a time limit."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Closable(Protocol):
    """The interface that a pool needs of an environment."""

    def close(self) -> None:
        """Frees its resources."""


Env = TypeVar("Env", bound=Closable)
logger = logging.getLogger(__name__)


class EnvSlot(Generic[Env]):
    """A slot for one environment, made at its first use. Threaded slots run calls in a thread, so a hung one never
    blocks.
    """

    def __init__(self, make_env: Callable[[], Env], threaded: bool, index: int = 0) -> None:
        self.index = index
        """Place among the slots that its pool has made."""
        self._make_env = make_env
        self._env: Env | None = None
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] | None = queue.SimpleQueue() if threaded else None
        # A daemon: a hung environment must not keep the process from ending.
        self._thread = threading.Thread(target=_work, args=(self._jobs,), name="env-slot", daemon=True)

    @property
    def env(self) -> Env | None:
        """The environment, which may be busy; None before its first use."""
        return self._env

    def call(self, function: Callable[[Env], T]) -> Future[T]:
        """Calls `function` on the environment → a future of its result or exception."""
        future: Future[T] = Future()

        def job() -> None:
            try:
                if self._env is None:
                    self._env = self._make_env()
                result = function(self._env)
            except Exception as error:
                future.set_exception(error)
            except SystemExit as error:
                # It may end its own episode, not the thread that others wait for, nor the process.
                future.set_exception(RuntimeError(f"the environment called exit({error.code!r})"))
            except BaseException as error:
                # Ctrl-C is given to the main thread, never to an environment's: what comes up there, such as
                # asyncio's CancelledError, is the environment's own.
                if self._jobs is None:
                    raise
                future.set_exception(RuntimeError(f"the environment raised {type(error).__name__}"))
            else:
                future.set_result(result)

        if self._jobs is None:
            job()
            return future
        if self._thread.ident is None:
            try:
                self._thread.start()
            except RuntimeError as error:
                # Out of memory, or of what the system allows.
                future.set_exception(error)
                return future
        self._jobs.put(job)
        return future

    def close(self) -> None:
        """Closes the environment after its current call, and ends its thread. Does not wait."""

        def job() -> None:
            if self._env is not None:
                try:
                    self._env.close()
                except Exception:
                    logger.exception("an environment could not be closed")
                self._env = None

        if self._jobs is None:
            job()
        else:
            self._jobs.put(job)
            self._jobs.put(None)


class EnvPool(Generic[Env]):
    """A pool of slots that episodes borrow. Its owner closes it."""

    def __init__(self, make_env: Callable[[], Env], threaded: bool) -> None:
        """`threaded`: whether calls may be abandoned after a time limit."""
        self._make_env, self._threaded = make_env, threaded
        self._free: list[EnvSlot[Env]] = []
        self._made = 0

    def borrow(self) -> EnvSlot[Env]:
        """Returns an idle slot, or a new one."""
        if self._free:
            return self._free.pop()
        self._made += 1
        return EnvSlot(self._make_env, self._threaded, self._made - 1)

    def give_back(self, slot: EnvSlot[Env]) -> None:
        """Takes back a slot that is idle and not broken."""
        self._free.append(slot)

    def close(self) -> None:
        """Closes all idle slots."""
        while self._free:
            self._free.pop().close()


def _work(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
