"""verl's published formulas as an independent check of ours: `make oracle` installs verl beside the other packages."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / ".oracle"
"""Where `make oracle` puts requirements/oracle.txt, which pins other versions of our own packages."""


def verl_core_algos() -> Any:
    """The module verl.trainer.ppo.core_algos, which runs on a CPU. Without it the test fails, and says why."""
    if str(FOLDER) not in sys.path:
        # Last, so that nothing in it takes the place of what the project is tested with.
        sys.path.append(str(FOLDER))
    try:
        return importlib.import_module("verl.trainer.ppo.core_algos")
    except ImportError as error:
        raise AssertionError(f"verl is not there ({error}); `make oracle` installs it") from error
