"""Metrics of an update: sums over its optimiser steps, turned into means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from rllib_ragen.learner.distributed import reduce_numbers
from rllib_ragen.learner.objective import SUMS, Objective

LEARNER_METRICS = (
    "policy_loss",
    "value_loss",
    "entropy",
    "clip_fraction",
    "grad_norm",
    "logprob_gap_mean",
    "logprob_gap_max",
    "logprob_gap_k3",
    "num_trained_tokens",
    "skipped_steps",
    "skipped_in_a_row",
    "lr",
)
_TOGETHER: dict[str, Callable[[Sequence[float]], float]] = {
    "logprob_gap_max": max,
    "num_trained_tokens": sum,
    "skipped_steps": sum,
    "skipped_in_a_row": max,
}
"""Reductions over several policies, of metrics that are not averaged."""


@dataclass
class StepReport:
    """Sums of one optimiser step of one module, on this learner."""

    sums: torch.Tensor = field(default_factory=lambda: torch.zeros(len(SUMS), dtype=torch.float64))
    largest_gap: torch.Tensor = field(default_factory=lambda: torch.zeros(()))

    def add(self, part: Objective) -> None:
        """Adds the sums of a micro-batch."""
        self.sums = self.sums.to(part.sums.device) + part.sums
        self.largest_gap = torch.maximum(self.largest_gap.to(part.largest_gap.device), part.largest_gap)

    def reduced(self, device: torch.device) -> tuple[dict[str, float], float]:
        """Returns (sum by name, largest gap) over all learners. A collective call."""
        sums = reduce_numbers(self.sums.to(device))
        gap = reduce_numbers(self.largest_gap.to(device), largest=True)
        return dict(zip(SUMS, sums.tolist(), strict=True)), float(gap)


@dataclass
class UpdateReport:
    """Sums of all optimiser steps of one update of one module."""

    steps: list[dict[str, float]] = field(default_factory=list)
    norms: dict[str, list[float]] = field(default_factory=dict)
    first_largest_gap: float = 0.0
    skipped_steps: int = 0
    most_skipped_in_a_row: int = 0

    def add(self, sums: dict[str, float], largest_gap: float) -> None:
        """Adds a step, in order."""
        if not self.steps:
            self.first_largest_gap = largest_gap
        self.steps.append(sums)

    def add_norms(self, norms: dict[str, float]) -> None:
        """Adds the gradient norms of a finished step, by optimiser."""
        for name, norm in norms.items():
            self.norms.setdefault(name, []).append(norm)

    def add_skipped(self, in_a_row: int) -> None:
        """Counts a skipped step, the `in_a_row`-th in a row."""
        self.skipped_steps += 1
        self.most_skipped_in_a_row = max(self.most_skipped_in_a_row, in_a_row)

    def metrics(self) -> dict[str, float]:
        """Returns means over tokens (entropy, clip_fraction, kl), over steps (losses, norms), and of the first step
        (gaps).

        Only in the first step are the weights still those that sampled: its gap is the difference between sampler and
        learner, later ones include the policy's own change; logprob_gap_k3 estimates KL(sampler ‖ learner) in nats per
        token. The loss metrics are the minimised sums. Rows without any gradient are not computed, and so not counted.
        """
        tokens = sum(step["tokens"] for step in self.steps) or math.nan
        first = self.steps[0]
        norms = {f"{name}_grad_norm": _mean(values) for name, values in self.norms.items()}
        return {
            "policy_loss": _mean([step["policy_loss"] for step in self.steps]),
            "value_loss": _mean([step["value_loss"] for step in self.steps]),
            "entropy": sum(step["entropy"] for step in self.steps) / tokens,
            "clip_fraction": sum(step["clipped"] for step in self.steps) / tokens,
            "grad_norm": norms.pop("policy_grad_norm", math.nan),
            "logprob_gap_mean": first["gap"] / (first["tokens"] or math.nan),
            "logprob_gap_max": self.first_largest_gap,
            "logprob_gap_k3": first["gap_k3"] / (first["tokens"] or math.nan),
            "num_trained_tokens": sum(step["tokens"] for step in self.steps),
            "skipped_steps": float(self.skipped_steps),
            "skipped_in_a_row": float(self.most_skipped_in_a_row),
            "kl": sum(step["kl"] for step in self.steps) / tokens,
            **norms,
        }


def learner_metrics(by_policy: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Returns the metrics of an update; with several policies also those of each, as `<metric>_<policy>`.

    There is a `kl` only with a reference.
    """
    names = [name for name in (*LEARNER_METRICS, "kl") if all(name in own for own in by_policy.values())]
    values = {name: [float(own[name]) for own in by_policy.values()] for name in names}
    found = {name: float(_TOGETHER.get(name, statistics.fmean)(numbers)) for name, numbers in values.items()}
    if len(by_policy) > 1:
        for policy, own in by_policy.items():
            found |= {f"{name}_{policy}": float(own[name]) for name in names}
    return found


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else math.nan
