"""Learning-rate schedules."""

from __future__ import annotations

import math
from typing import Literal

LRSchedule = Literal["constant", "linear", "cosine"]


def lr_factor(update: int, schedule: LRSchedule, warmup: int, decay: int | None) -> float:
    """Returns the factor on every learning rate in update number `update` (from 0), a function of this counter alone.

    It rises as (update + 1)/warmup over the first `warmup` updates, so that the first is not 0; after them it is 1
    (constant), or falls to 0 at update `decay`: with p = (update − warmup)/(decay − warmup) as 1 − p (linear) or
    ½ (1 + cos πp) (cosine).

    Raises ValueError for an unknown schedule, or one that falls without a `decay` above `warmup`.
    """
    if update < warmup:
        return (update + 1) / warmup
    if schedule == "constant":
        return 1.0
    if decay is None or decay <= warmup:
        raise ValueError(f"learner.decay_iterations: must be above warmup_iterations={warmup}, got {decay}")
    progress = min(1.0, (update - warmup) / (decay - warmup))
    if schedule == "linear":
        return 1.0 - progress
    if schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * progress))
    raise ValueError(f"learner.lr_schedule: unknown {schedule!r}; allowed: constant, linear, cosine")
