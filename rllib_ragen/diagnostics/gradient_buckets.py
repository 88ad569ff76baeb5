"""Groups sorted by the std of their rewards and cut into buckets, with the gradient norms of each bucket.

RAGEN-2 (2604.06268): where the members of a group are all rewarded alike the task gradient is weak, and what moves the
weights there are the regularisers, which know nothing of the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ragen_envs.tree import Tree

TERMS = ("task", "entropy", "kl")
"""Terms of the loss: the clipped surrogate, the mean entropy, the mean divergence from the reference."""
NUM_BUCKETS = 6
"""Buckets of one measurement, as in RAGEN-2: five or six of the default 32 groups in each."""
_PER_BUCKET = ("reward_std", *(f"{term}_norm" for term in TERMS))


@dataclass(frozen=True)
class Bucket:
    """Groups with neighbouring reward stds."""

    reward_std: float
    """Mean over the bucket's groups of the in-group std of raw returns (ddof = 1)."""
    lowest: float
    """Smallest in-group std of the bucket."""
    highest: float
    """Largest in-group std of the bucket."""
    groups: int
    trajectories: int
    """Number of trajectories with a sampled token."""
    tokens: int
    """Number of trained tokens."""
    share: float
    """Factor of the bucket's mean loss in the batch's loss."""
    norms: dict[str, float]
    """L2 gradient norm by term, of the bucket's own mean as if it were a batch, with coefficient 1."""


@dataclass(frozen=True)
class Gradients:
    """Gradient norms of one measurement, by bucket and of the whole batch."""

    buckets: list[Bucket]
    """Buckets from the smallest reward std to the largest; fewer groups than buckets leave some out."""
    norms: dict[str, float]
    """Norm by term of the whole batch's gradient, Σ share · bucket's gradient. `kl` is NaN without a reference."""
    coefficients: dict[str, float]
    """Coefficient of each term in the loss."""

    def to_json(self) -> Tree:
        """Returns all fields as JSON, with norms per trajectory and per trained token added, and null for NaN."""
        tree = asdict(self)
        for bucket in tree["buckets"]:
            norms = dict(bucket["norms"])
            for per in ("trajectories", "tokens"):
                bucket[f"norms_over_{per}"] = {term: norm / max(1, bucket[per]) for term, norm in norms.items()}
        return {key: _without_nan(value) for key, value in tree.items()}


def in_buckets(reward_stds: Mapping[str, float], count: int) -> list[list[str]]:
    """Returns the group ids, by rising reward std (ties by id), in at most `count` buckets of nearly equal size."""
    ordered = sorted(reward_stds, key=lambda group: (reward_stds[group], group))
    parts = np.array_split(np.arange(len(ordered)), min(count, max(1, len(ordered))))
    return [[ordered[i] for i in part] for part in parts if len(part)]


def gradient_metric_names() -> list[str]:
    """Returns the names of the metrics of `gradient_metrics`."""
    return [f"bucket_{k}_{name}" for k in range(1, NUM_BUCKETS + 1) for name in _PER_BUCKET]


def gradient_metrics(found: Gradients | None) -> dict[str, float]:
    """Returns flat metrics, with norms times their coefficients in the loss; NaN if nothing was measured.

    bucket_k_reward_std, bucket_k_task_norm, bucket_k_entropy_norm, bucket_k_kl_norm, k = 1 the smallest reward std.
    """
    metrics = dict.fromkeys(gradient_metric_names(), float("nan"))
    for k, bucket in enumerate(found.buckets if found else (), start=1):
        assert found is not None
        metrics[f"bucket_{k}_reward_std"] = bucket.reward_std
        metrics |= {f"bucket_{k}_{term}_norm": found.coefficients[term] * bucket.norms[term] for term in TERMS}
    return metrics


def gradient_table(found: Gradients) -> str:
    """Returns a table for a terminal: one line per bucket, and one for the whole batch."""
    weighted = [term for term in TERMS if term != "task"]
    heads = ["bucket", "reward std", "groups", "trajectories", "tokens", "task"]
    heads += [name for term in weighted for name in (term, f"{found.coefficients[term]:g} × {term}")]
    counts = [[b.groups, b.trajectories, b.tokens] for b in found.buckets]
    rows = [
        [str(k), f"{b.lowest:.3g}–{b.highest:.3g}", *map(str, counts[k - 1]), *_norms(b.norms, found.coefficients)]
        for k, b in enumerate(found.buckets, start=1)
    ]
    rows.append(
        ["all", "", *(str(sum(c)) for c in zip(*counts, strict=True)), *_norms(found.norms, found.coefficients)]
    )
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows)
    )


def _norms(norms: Mapping[str, float], coefficients: Mapping[str, float]) -> list[str]:
    others = [f"{factor * norms[term]:.3g}" for term in TERMS[1:] for factor in (1.0, coefficients[term])]
    return [f"{norms['task']:.3g}", *others]


def _without_nan(value: object) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
