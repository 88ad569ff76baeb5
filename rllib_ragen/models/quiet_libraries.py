"""Silence of the libraries: a command prints only its own output, and errors."""

from __future__ import annotations

import logging
import warnings


def quieten() -> None:
    """Silences progress bars, notes and deprecation warnings of transformers and Ray's libraries."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    # PB2 fits its model to a handful of points.
    warnings.filterwarnings("ignore", module="sklearn")
    for name in ("ray.rllib", "ray.tune", "ray.train"):
        logging.getLogger(name).setLevel(logging.ERROR)
