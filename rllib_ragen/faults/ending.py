"""The certain end of a command: once its work is done, nothing keeps its process alive."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from rllib_ragen.faults.exit_codes import ExitCode

GRACE_S = 30.0
"""Longest seconds from the end of the work to the end of the process: chosen freely, several times what Ray's servers
take to stop. All results are written by then."""
_LAST_S = 5.0
"""Further seconds before the process is killed, if it no longer runs Python: chosen freely."""


def leave(command: Callable[[], int | None], grace_s: float = GRACE_S) -> NoReturn:
    """Runs a command, and ends the process with its exit code, by force after `grace_s`.

    Non-daemon threads, atexit handlers (Ray's shutdown) and destructors of native libraries could otherwise keep it
    alive for minutes on a busy machine. Call it in the main thread, as the last statement.
    """
    code: int = ExitCode.ERROR
    try:
        code = command() or ExitCode.DONE
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else ExitCode.DONE if end.code is None else ExitCode.ERROR
        raise
    finally:
        _end_after(grace_s, code)
    sys.exit(code)


def within(limit_s: float, call: Callable[[], object]) -> bool:
    """Runs `call` in a thread and waits for at most `limit_s` → whether it has ended. If not, it runs on.

    Raises:
        BaseException: what `call` raised in time.
    """
    raised: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work, name="within", daemon=True)
    thread.start()
    thread.join(limit_s)
    if raised:
        raise raised[0]
    return not thread.is_alive()


def _end_after(grace_s: float, code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()

    def end() -> None:
        names = [thread.name for thread in threading.enumerate() if not thread.daemon]
        print(
            f"rllib_ragen: the work is done, but the process has not ended in {grace_s:g} s (threads: "
            f"{', '.join(names)}): it is ended",
            file=sys.stderr,
            flush=True,
        )
        os._exit(code)

    timer = threading.Timer(grace_s, end)
    timer.daemon = True
    timer.start()
    # No thread runs any more once the interpreter takes itself down; the system's own alarm does.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, grace_s + _LAST_S)
