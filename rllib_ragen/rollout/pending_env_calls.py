"""Waiting for environments beside an engine: long enough for reproducible batches, never longer than a limit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rllib_ragen.rollout.env_answers import error_text
from rllib_ragen.rollout.env_pool import EnvSlot
from rllib_ragen.rollout.session import EnvT

Owner = TypeVar("Owner")
_GRACE_S = 0.005
"""What slow environments are waited for before the engine works on."""
_QUICK_S = 1.0
"""While every answer came within this time, all answers are waited for: then the engine's batches, and with them the
last bits of its log-probs, do not depend on the timing of threads."""
_FREE_WAIT_S, _WAIT_SHARE = 2.0, 0.3
"""Likewise only while all waits together stay below this time, or below this share of the batch's."""


@dataclass
class _Pending(Generic[Owner]):
    """An episode that waits for its environment."""

    owner: Owner
    future: Future[Any]
    deadline: float


class PendingEnvCalls(Generic[Owner]):
    """The episodes of one batch that wait for their environments, by key."""

    def __init__(self, timeout_s: float | None) -> None:
        """`timeout_s`: longest reset or step; None: no limit."""
        self._timeout_s = timeout_s
        self._pending: dict[int, _Pending[Owner]] = {}
        self._started = time.monotonic()
        self._waited_s = 0.0
        self._quick = True
        """All answers are waited for."""

    def ask(self, key: int, owner: Owner, slot: EnvSlot[EnvT], call: Callable[[EnvT], Any]) -> None:
        """Has the environment do `call`; `settle` gives its result to the episode."""
        limit = math.inf if self._timeout_s is None else self._timeout_s
        self._pending[key] = _Pending(owner, slot.call(call), time.monotonic() + limit)

    def settle(
        self, engine_busy: bool, resume: Callable[[Owner, Any], None], fail: Callable[[Owner, str], None]
    ) -> bool:
        """Tells episodes of their environments; whether there was anything to tell.

        Args:
            engine_busy: whether an engine has something to do meanwhile.
            resume: hears of those that have answered.
            fail: hears of those that raised, or whose time is up.
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
