"""Which groups are learnt from: those whose trajectories differ (StarPO-S, arXiv 2504.20073; RAGEN-2, 2604.06268)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.estimator import refuse_failed
from rllib_ragen.credit.group_scores import Scores, group_scores, reward_spreads
from rllib_ragen.credit.groups import group_members
from rllib_ragen.types import Trajectory

TOP_P_EPS = 0.01
"""How far short of v · Σ the kept groups' running sum of scores may stay."""


@dataclass(frozen=True)
class FilterResult:
    """What a filter kept. An empty `kept` means: skip this update."""

    kept: list[Trajectory]
    """Whole groups, in the order in which they came."""
    metrics: dict[str, float]


def filter_groups(trajectories: Sequence[Trajectory], section: CreditSection) -> FilterResult:
    """Keep whole groups by the metric of *raw* rewards or samples; the choice does not depend on trajectories' order.

    A group whose returns are all equal is never kept, whatever its score, unless `filter_zero_spread` is on, or
    neither a filter nor dynamic sampling is. Equal scores are ordered by group_id.

    Metrics: num_groups, kept_groups, kept_ratio (of groups, 0 … 1), zero_spread_groups (before); over groups before
    filtering and over the kept ones (suffix _kept): group_reward_std (mean of the in-group std, ddof = 1),
    group_reward_mean and group_reward_max (means of the in-group mean and maximum). 0 if there is no group.

    Raises ValueError for a failed trajectory.
    """
    refuse_failed(trajectories)
    spreads = reward_spreads(trajectories)
    scores = group_scores(trajectories, section.filter_metric)
    keeps_flat = section.filter_zero_spread or (section.filter == "none" and section.dynamic_sampling_rounds == 0)
    sign = 1 if section.filter_direction == "largest" else -1
    ranked = sorted(
        (group for group in scores if keeps_flat or spreads[group] > 0),
        key=lambda group: (-sign * scores[group], group),
    )
    kept = set(ranked[: _STRATEGIES[section.filter](ranked, scores, section)])
    metrics = {
        "num_groups": float(len(scores)),
        "kept_groups": float(len(kept)),
        "kept_ratio": len(kept) / len(scores) if scores else 0.0,
        "zero_spread_groups": float(sum(std == 0 for std in spreads.values())),
        **_rewards(trajectories, set(scores), spreads, ""),
        **_rewards(trajectories, kept, spreads, "_kept"),
    }
    return FilterResult([t for t in trajectories if t.group_id in kept], metrics)


def _rewards(trajectories: Sequence[Trajectory], groups: set[str], spreads: Scores, suffix: str) -> dict[str, float]:
    returns: dict[str, list[float]] = {
        group: sorted(trajectories[i].episode_return for i in members)
        for group, members in group_members(trajectories).items()
        if group in groups
    }
    ordered = sorted(returns)
    return {
        f"group_reward_std{suffix}": _mean([spreads[group] for group in ordered]),
        f"group_reward_mean{suffix}": _mean([_mean(returns[group]) for group in ordered]),
        f"group_reward_max{suffix}": _mean([returns[group][-1] for group in ordered]),
    }


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers)) if numbers else 0.0


# --- strategies: how many of the ranked groups are kept, best first ---------------------------------------------------


def _all(ranked: list[str], scores: Scores, section: CreditSection) -> int:
    return len(ranked)


def _top_k(ranked: list[str], scores: Scores, section: CreditSection) -> int:
    """The share v of *all* groups, also of those that cannot be kept; at least one."""
    return max(1, int(section.filter_value * len(scores) + 1e-9))  # 0.29 · 100 is 28.999…


def _top_k_abs(ranked: list[str], scores: Scores, section: CreditSection) -> int:
    return max(1, int(section.filter_value))


def _top_p(ranked: list[str], scores: Scores, section: CreditSection) -> int:
    """Until the running sum of scores is ≥ v · Σ − eps."""
    if not ranked:
        return 0
    running = np.cumsum([scores[group] for group in ranked])
    return int(np.argmax(running >= section.filter_value * running[-1] - TOP_P_EPS)) + 1


def _top_p_softmax(ranked: list[str], scores: Scores, section: CreditSection) -> int:
    """Until the running sum of softmax(±scores), the best first, is ≥ v; at least one."""
    if not ranked:
        return 0
    distance = np.abs(np.array([scores[group] for group in ranked]) - scores[ranked[0]])
    running = np.cumsum(np.exp(-distance))
    return int(np.argmax(running >= section.filter_value * running[-1])) + 1


def _min_p(ranked: list[str], scores: Scores, section: CreditSection) -> int:
    """Scores ≥ v · max."""
    return sum(scores[group] >= section.filter_value * scores[ranked[0]] for group in ranked)


_STRATEGIES: dict[str, Callable[[list[str], Scores, CreditSection], int]] = {
    "none": _all,
    "top_k": _top_k,
    "top_k_abs": _top_k_abs,
    "top_p": _top_p,
    "top_p_softmax": _top_p_softmax,
    "min_p": _min_p,
}
