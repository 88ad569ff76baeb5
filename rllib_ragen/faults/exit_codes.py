"""The ends of a run: exit codes, the errors that stand for them, and one sentence for each (docs/faults.md)."""

from __future__ import annotations

import errno
import os
import re
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """Exit codes of `python -m rllib_ragen.run`."""

    DONE = 0
    ERROR = 1
    """An unexpected error, with a traceback."""
    BAD_INPUT = 2
    WORKERS_LOST = 3
    """Env runners or learners died, more often than they could be replaced."""
    HUNG = 4
    """No progress for `fault.hang_timeout_s`."""
    STORAGE = 5
    """The results folder is full, read-only or gone."""
    NOT_FINITE = 6
    """Weights or gradients are no longer finite."""
    ENVIRONMENT = 7
    """All trajectories of several batches in a row failed."""
    MEMORY = 8
    """The driver's process ran out of memory."""
    INTERRUPTED = 130
    """End by SIGINT (Ctrl-C)."""
    TERMINATED = 143
    """End by SIGTERM."""


class WorkersLost(RuntimeError):
    """Actors died, or could not be started, and cannot be replaced."""


class NotFinite(RuntimeError):
    """The policy is broken: its weights, or its gradients several times in a row, are not finite."""


class NothingPlayed(RuntimeError):
    """All trajectories failed."""


_CODES: dict[type[Exception], ExitCode] = {
    WorkersLost: ExitCode.WORKERS_LOST,
    NotFinite: ExitCode.NOT_FINITE,
    NothingPlayed: ExitCode.ENVIRONMENT,
    MemoryError: ExitCode.MEMORY,
}
FORESEEN = tuple(_CODES)
"""Errors that are reported in a sentence, without a traceback."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE}
_NO_MEMORY = re.compile(r"can't allocate memory|out of memory|Cannot allocate memory", re.IGNORECASE)


def exit_code_of(error: BaseException, folder: Path | None = None) -> ExitCode:
    """Returns the exit code for `error` of the run in `folder` (if it has one); ERROR for an unexpected one."""
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return code
    if isinstance(error, OSError) and (error.errno in _FULL or (folder is not None and _is_in(error.filename, folder))):
        return ExitCode.STORAGE
    # safetensors tells it in words.
    if type(error).__name__ == "SafetensorError" and "(os error " in str(error):
        return ExitCode.STORAGE
    # torch raises plain RuntimeErrors on a CPU, and a RuntimeError of its own on a GPU.
    if isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)):
        return ExitCode.MEMORY
    return ExitCode.ERROR


def sentence_of(error: BaseException, code: ExitCode) -> str:
    """Returns a sentence about `error`, in one line."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if code is ExitCode.STORAGE:
        return f"the results folder cannot be written to: {first}"
    if code is ExitCode.MEMORY:
        return f"the driver got no more memory: {first}"
    return first


def _is_in(path: object, folder: Path) -> bool:
    return isinstance(path, (str, bytes, Path)) and Path(os.fsdecode(path)).absolute().is_relative_to(folder.absolute())
