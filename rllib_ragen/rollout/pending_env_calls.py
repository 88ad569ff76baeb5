"""Waits for environments beside an engine: long enough for reproducible batches, never longer than a limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

from rllib_ragen.rollout.env_answers import error_text
from rllib_ragen.rollout.env_pool import EnvSlot
from rllib_ragen.rollout.session import EnvT

Owner = TypeVar("Owner")
_GRACE_S = 0.005
"""Wait in seconds for slow environments before the engine goes on: chosen freely, about one decoding step."""
_QUICK_S = 1.0
"""Longest wait in seconds for all answers, while every answer came in time: then the engine's batches, and with them
the last bits of its log-probs, do not depend on the timing of threads. Chosen freely."""
_FREE_WAIT_S, _WAIT_SHARE = 2.0, 0.3
"""Most seconds of these waits in a batch, or their largest share of its time if that is longer: chosen freely."""


@dataclass
class _Pending(Generic[Owner]):
    """A call of an episode's environment."""

    owner: Owner
    future: Future[object]
    deadline: float


class PendingEnvCalls(Generic[Owner]):
    """The pending environment calls of one batch, by key."""

    def __init__(self, timeout_s: float | None) -> None:
        """`timeout_s`: longest reset or step; None: no limit."""
        self._timeout_s = timeout_s
        self._pending: dict[int, _Pending[Owner]] = {}
        self._started = time.monotonic()
        self._waited_s = 0.0
        self._quick = True
        """All answers are waited for."""

    def ask(self, key: int, owner: Owner, slot: EnvSlot[EnvT], call: Callable[[EnvT], object]) -> None:
        """Starts `call` on the environment; `settle` gives its result to the episode."""
        limit = math.inf if self._timeout_s is None else self._timeout_s
        self._pending[key] = _Pending(owner, slot.call(call), time.monotonic() + limit)

    def settle(
        self, engine_busy: bool, resume: Callable[[Owner, object], None], fail: Callable[[Owner, str], None]
    ) -> bool:
        """Gives answers, errors and timeouts to the episodes → whether there were any.

        Args:
            engine_busy: whether an engine has work meanwhile.
            resume: called with each answer.
            fail: called with each error or timeout.
        """
        if not self._pending:
            return False
        futures = {waiting.future for waiting in self._pending.values()}
        if self._quick:
            before = time.monotonic()
            late = wait(futures, _QUICK_S, ALL_COMPLETED).not_done
            self._waited_s += time.monotonic() - before
            allowed_s = max(_FREE_WAIT_S, _WAIT_SHARE * (time.monotonic() - self._started))
            self._quick = not late and self._waited_s <= allowed_s
        elif engine_busy:
            wait(futures, _GRACE_S, ALL_COMPLETED)
        else:
            # With nothing for the engine to do, the first answer is worth resuming for.
            wait(futures, _QUICK_S, FIRST_COMPLETED)
        now, told = time.monotonic(), False
        for key, waiting in list(self._pending.items()):
            if not waiting.future.done() and now <= waiting.deadline:
                continue
            told = True
            del self._pending[key]
            if not waiting.future.done():
                fail(waiting.owner, f"the environment took longer than {self._timeout_s:g} s")
            elif (error := waiting.future.exception()) is not None:
                fail(waiting.owner, error_text(error))
            else:
                resume(waiting.owner, waiting.future.result())
        return told
