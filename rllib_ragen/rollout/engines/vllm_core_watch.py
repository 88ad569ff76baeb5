"""A watch for the end of vLLM's engine process, after which its client would wait for an answer for ever."""

from __future__ import annotations

import threading
import time
from multiprocessing.connection import wait
from typing import Any

from rllib_ragen.rollout.engines.base import EngineDead

_SWEEP_S, _SWEEPS = 0.5, 60
"""Seconds between two sweeps over open calls after the end, and number of sweeps: chosen freely, half a minute,
because a call may have begun before vLLM itself noticed the end.
"""


def watch_core(client: Any) -> None:
    """Makes calls through `client` (LLMEngine.engine_core) raise EngineDead once the process behind it has ended.

    Does nothing for an engine in this process.
    """
    manager = getattr(getattr(client, "resources", None), "engine_manager", None)
    if manager is not None:
        threading.Thread(target=_watch, args=(manager.processes, client.utility_results), daemon=True).start()


def _watch(processes: list[Any], calls: dict[int, Any]) -> None:
    wait([process.sentinel for process in processes])
    for _ in range(_SWEEPS):
        for call in list(calls.values()):
            if not call.done():
                call.set_exception(EngineDead("vLLM's engine process has ended"))
        time.sleep(_SWEEP_S)
