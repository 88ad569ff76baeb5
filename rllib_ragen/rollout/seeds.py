"""Seeds from counters: what is random about an episode follows from numbers that a checkpoint can hold."""

from __future__ import annotations

import numpy as np


def derived_seed(*words: int) -> int:
    """63 bits that depend on every word, and are independent from one combination of words to the next."""
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))
