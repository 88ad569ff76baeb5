"""The counters of a run, and a batch of rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragen_envs.tree import Tree
from rllib_ragen.types import Trajectory


@dataclass
class Counters:
    """The counters of a run: with the weights, all that a checkpoint needs."""

    iteration: int = 0
    next_group: int = 0
    policy_version: int = 0
    empty_in_a_row: int = 0
    num_turns: int = 0
    num_reply_tokens: int = 0
    stop_reason: str = ""
    ahead_drawn: dict[str, float] = field(default_factory=dict)
    """The field `drawn` of the batch that is sampled ahead."""
    std_ema: dict[str, float] = field(default_factory=dict)
    """Running means of the information diagnostics."""
    estimator: dict[str, float] = field(default_factory=dict)
    """What the estimator remembers."""
    rewards: Tree = field(default_factory=dict)
    """What the rewards remember, by label."""
    matchmaker: Tree = field(default_factory=dict)
    """What the matchmaker remembers: the league."""
    watched: list[Tree] = field(default_factory=list)
    """Rows that the alarms have seen (AlarmCallback), cut to what their rules read."""

    def count(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Counts a batch → the counters as metrics."""
        self.num_turns += sum(len(trajectory.turns) for trajectory in trajectories)
        self.num_reply_tokens += sum(trajectory.num_reply_tokens for trajectory in trajectories)
        return {
            "policy_version": self.policy_version,
            "empty_in_a_row": self.empty_in_a_row,
            "num_turns_lifetime": self.num_turns,
            "num_reply_tokens_lifetime": self.num_reply_tokens,
        }

    @classmethod
    def from_manifest(cls, progress: Mapping[str, Any]) -> Counters:
        """Reads a checkpoint's counters, without its stop reason: the run goes on."""
        known = dict(progress)
        if "line_up" in known:
            # What checkpoints of version 0.1 call it.
            known["matchmaker"] = known.pop("line_up")
        return cls(**{**known, "stop_reason": ""})


@dataclass(frozen=True)
class Batch:
    """The results of one round of rollouts."""

    trajectories: list[Trajectory]
    metrics: list[object]
    """Reduced metrics of the runners."""
    seconds: float
    drawn: dict[str, float] = field(default_factory=dict)
    """Numbers of rounds and groups that were drawn, as metrics."""
