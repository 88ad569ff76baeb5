"""Waiting for what will be so, however busy the machine is: no test passes or fails by how fast something was."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 500.0
"""Below pytest's own limit of 600 s, so that a test which waits in vain says for what."""


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Returns when `condition` holds; `what` it is, as half a sentence, is told if it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s in vain until {what}"
        time.sleep(0.02)
