"""verl's published formulas as an independent check of ours; optional, and loud when it is missing."""

from __future__ import annotations

from typing import Any

import pytest


def verl_core_algos() -> Any:
    """The module verl.trainer.ppo.core_algos of verl 0.9.1, which runs on a CPU; skips the test without it."""
    return pytest.importorskip(
        "verl.trainer.ppo.core_algos",
        reason="NOT CHECKED against verl: pip install --no-deps -r requirements/oracle.txt",
        exc_type=ImportError,
    )
