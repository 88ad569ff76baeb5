"""Which groups are learnt from: those whose trajectories differ (StarPO-S, arXiv 2504.20073; RAGEN-2, 2604.06268)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rllib_ragen.config import CreditSection
from rllib_ragen.credit.base import refuse_failed
from rllib_ragen.credit.groups import group_members, spread
from rllib_ragen.types import Trajectory

Scores = dict[str, float]

TOP_P_EPS = 0.01
"""How far short of v · Σ the kept groups' running sum of scores may stay."""


@dataclass(frozen=True)
class FilterResult:
    """What a filter kept. An empty `kept` means: skip this update."""

    kept: list[Trajectory]
    """Whole groups, in the order in which they came."""
    metrics: dict[str, float]


def filter_groups(trajectories: Sequence[Trajectory], section: CreditSection) -> FilterResult:
    """Keep whole groups by the spread of their *raw* returns; which ones does not depend on the trajectories' order.

    Equal scores are ordered by group_id. Metrics: num_groups, kept_groups, kept_ratio (of groups, 0 … 1),
    zero_spread_groups (before), group_reward_std and group_reward_std_kept (mean over groups of the in-group std,
    ddof = 1, before and after; 0 if there is no group).

    Raises ValueError for a failed trajectory.
    """
    refuse_failed(trajectories)
    members = group_members(trajectories)
    stds = {
        group: spread(np.array([trajectories[i].episode_return for i in indices], np.float64))
        for group, indices in members.items()
    }
    power = 2 if section.filter_metric == "reward_variance" else 1
    kept = set(_STRATEGIES[section.filter]({group: std**power for group, std in stds.items()}, section.filter_value))
    metrics = {
        "num_groups": float(len(stds)),
        "kept_groups": float(len(kept)),
        "kept_ratio": len(kept) / len(stds) if stds else 0.0,
        "zero_spread_groups": float(sum(std == 0 for std in stds.values())),
        "group_reward_std": _mean([stds[group] for group in sorted(stds)]),
        "group_reward_std_kept": _mean([stds[group] for group in sorted(kept)]),
    }
    return FilterResult([t for t in trajectories if t.group_id in kept], metrics)


def _keep_all(scores: Scores, value: float) -> list[str]:
    return list(scores)


def _top_k(scores: Scores, value: float) -> list[str]:
    """The max(1, int(v · P)) groups with the largest score; groups without spread fill up where others are too few."""
    count = int(value * len(scores) + 1e-9)  # 0.29 · 100 is 28.999…
    return _ranked(scores)[: max(1, count)]


def _top_p(scores: Scores, value: float) -> list[str]:
    """Largest scores first until their running sum is ≥ v · Σ − eps; groups without spread are never kept."""
    live = [group for group in _ranked(scores) if scores[group] > 0]
    if not live:
        return []
    running = np.cumsum([scores[group] for group in live])
    enough = int(np.argmax(running >= value * running[-1] - TOP_P_EPS))
    return live[: enough + 1]


def _ranked(scores: Scores) -> list[str]:
    return sorted(scores, key=lambda group: (-scores[group], group))


def _mean(numbers: list[float]) -> float:
    return float(np.mean(numbers)) if numbers else 0.0


_STRATEGIES: dict[str, Callable[[Scores, float], list[str]]] = {"none": _keep_all, "top_k": _top_k, "top_p": _top_p}
