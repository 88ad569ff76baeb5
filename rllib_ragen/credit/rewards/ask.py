"""Calls a reward function on a batch: in a thread, so that one that hangs can be given up, and each fault alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import cast

from rllib_ragen.credit.rewards.function import RewardFunction
from rllib_ragen.faults.watchdog import waiting

_MAX_HANGS = 3
"""Calls of a batch that are waited for in vain before the rest is given up: what hangs so often hangs always."""
_MAX_ERROR = 1_000
"""Characters of an error that a trajectory keeps: it is written to logs and shown in tables."""


class RewardError(Exception):
    """A reward cannot be told; the message says why and needs no name of an exception before it."""


@dataclass(frozen=True)
class Failed:
    """No answer, and why: the end of a sentence that begins with the function's name."""

    why: str


Answers = SimpleQueue[tuple[int, object]]
"""Place of an item, and its answer or Failed."""


def ask(function: RewardFunction, items: Sequence[object]) -> list[object]:
    """Returns the function's answer to each item, in order; Failed where it raised or hung.

    A sync function is called with one after the other, an async one with all at once. `timeout_s` is the longest wait
    for the next answer.
    """
    found: dict[int, object] = {}
    hangs = 0
    with waiting(
        lambda: f"the reward {function.name} ({len(found)} of {len(items)} answers)", lambda: len(found), may_hang=False
    ):
        while rest := [index for index in range(len(items)) if index not in found]:
            work = _Work(function, [(index, items[index]) for index in rest])
            try:
                for _ in rest:
                    index, answer = work.answers.get(timeout=function.timeout_s)
                    found[index] = answer
            except Empty:
                work.give_up()
                hangs += 1
                late = [index for index in rest if index not in found]
                # One by one the first of them is what hangs; the others have not been asked yet.
                lost = late if function.is_async or hangs >= _MAX_HANGS else late[:1]
                found |= dict.fromkeys(lost, Failed(f"took longer than {function.timeout_s:g} s"))
    return [found[index] for index in range(len(items))]


class _Work:
    """One pass over items, in a daemon thread: a function that hangs must not keep the process from ending."""

    def __init__(self, function: RewardFunction, jobs: Sequence[tuple[int, object]]) -> None:
        self.answers: Answers = SimpleQueue()
        self._function, self._jobs = function, jobs
        self._given_up = threading.Event()
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        threading.Thread(target=self._run, name=f"reward {function.label}", daemon=True).start()

    def give_up(self) -> None:
        """Ends it as soon as the function comes back; nobody listens any more."""
        self._given_up.set()
        if self._running is not None:
            loop, task = self._running
            with suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(task.cancel)

    def _run(self) -> None:
        if self._function.is_async:
            with suppress(asyncio.CancelledError):
                asyncio.run(self._ask_all())
            return
        for index, item in self._jobs:
            if self._given_up.is_set():
                return
            answer: object
            try:
                answer = self._function.call(item)
            except BaseException as error:
                answer = Failed(_told(error))
            self.answers.put((index, answer))

    async def _ask_all(self) -> None:
        self._running = (asyncio.get_running_loop(), cast("asyncio.Task[None]", asyncio.current_task()))
        await asyncio.gather(*(self._ask_one(index, item) for index, item in self._jobs))

    async def _ask_one(self, index: int, item: object) -> None:
        answer: object
        try:
            answer = await cast(Awaitable[object], self._function.call(item))
        except BaseException as error:
            answer = Failed(_told(error))
        self.answers.put((index, answer))


def _told(error: BaseException) -> str:
    """Says what was raised, as the end of a sentence; never raises itself."""
    try:
        said = " ".join(str(error).split())
    except Exception:
        said = "(its message cannot be shown)"
    if not isinstance(error, RewardError):
        said = f"raised {type(error).__name__}: {said}"
    return said[:_MAX_ERROR].encode("utf-8", "backslashreplace").decode()
