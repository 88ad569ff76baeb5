"""How far a run is, and what an iteration brought."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rllib_ragen.types import Trajectory


@dataclass
class Progress:
    """How far a run is; with the weights, all that a checkpoint needs."""

    iteration: int = 0
    next_group: int = 0
    policy_version: int = 0
    empty_in_a_row: int = 0
    num_turns: int = 0
    num_reply_tokens: int = 0
    stop_reason: str = ""
    ahead_drawn: dict[str, float] = field(default_factory=dict)
    """`Batch.drawn` of the batch that is sampled ahead."""
    std_ema: dict[str, float] = field(default_factory=dict)
    """Running means of the information diagnostics."""
    estimator: dict[str, float] = field(default_factory=dict)
    """What the estimator remembers."""
    line_up: dict[str, Any] = field(default_factory=dict)
    """What the line-up remembers: the league."""


@dataclass(frozen=True)
class Batch:
    """What one round of rollouts brought."""

    trajectories: list[Trajectory]
    metrics: list[Any]
    """Of the runners that played, reduced."""
    seconds: float
    drawn: dict[str, float] = field(default_factory=dict)
    """How many rounds and groups it took."""
