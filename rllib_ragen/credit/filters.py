"""Selection of the groups to train on by their reward std (StarPO-S, arXiv 2504.20073; RAGEN-2, 2604.06268)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.estimator import refuse_failed
from rllib_ragen.credit.filter_rules import FILTERS, GroupRanking
from rllib_ragen.credit.group_scores import Scores, group_reward_stds, group_scores
from rllib_ragen.credit.groups import group_members
from rllib_ragen.types import Trajectory


@dataclass(frozen=True)
class FilterResult:
    """The result of a filter. An empty `kept` means: skip this update."""

    kept: list[Trajectory]
    """Trajectories of the kept groups, in their original order."""
    metrics: dict[str, float]


def filter_groups(trajectories: Sequence[Trajectory], section: CreditSection) -> FilterResult:
    """Keeps or drops whole groups by their score; the choice does not depend on the trajectories' order.

    Scores are of *raw* rewards, or of the samples. A group whose returns are all equal is never kept, whatever its
    score, unless `filter_zero_spread` is on, or neither a filter nor dynamic sampling is. Equal scores are ordered by
    group_id.

    Metrics: num_groups, kept_groups, kept_ratio (of groups, 0 … 1), zero_spread_groups (before); over groups before
    filtering and over the kept ones (suffix _kept): group_reward_std (mean of the in-group std, ddof = 1),
    group_reward_mean and group_reward_max (means of the in-group mean and maximum). 0 if there is no group.

    Raises ValueError for a failed trajectory, and for a filter that keeps anything but groups of `GroupRanking.groups`.
    """
    refuse_failed(trajectories)
    reward_stds = group_reward_stds(trajectories)
    scores = group_scores(trajectories, section.filter_metric)
    keeps_flat = section.filter_zero_spread or (section.filter == "none" and section.dynamic_sampling_rounds == 0)
    sign = 1 if section.filter_direction == "largest" else -1
    ranked = sorted(
        (group for group in scores if keeps_flat or reward_stds[group] > 0),
        key=lambda group: (-sign * scores[group], group),
    )
    members = {group: [trajectories[i] for i in found] for group, found in group_members(trajectories).items()}
    ranking = GroupRanking(tuple(ranked), scores, members, section.filter_value)
    kept = _chosen(section.filter, ranking)
    metrics = {
        "num_groups": float(len(scores)),
        "kept_groups": float(len(kept)),
        "kept_ratio": len(kept) / len(scores) if scores else 0.0,
        "zero_spread_groups": float(sum(std == 0 for std in reward_stds.values())),
        **_rewards(trajectories, set(scores), reward_stds, ""),
        **_rewards(trajectories, kept, reward_stds, "_kept"),
    }
    return FilterResult([t for t in trajectories if t.group_id in kept], metrics)


def _chosen(name: str, ranking: GroupRanking) -> set[str]:
    kept: Collection[str] = FILTERS.resolve(name, "credit.filter")(ranking)
    if isinstance(kept, str) or not set(kept) <= set(ranking.groups):
        raise ValueError(f"credit.filter={name} keeps {kept!r}, which are not all groups that may be kept")
    return set(kept)


def _rewards(
    trajectories: Sequence[Trajectory], groups: set[str], reward_stds: Scores, suffix: str
) -> dict[str, float]:
    returns: dict[str, list[float]] = {
        group: sorted(trajectories[i].episode_return for i in members)
        for group, members in group_members(trajectories).items()
        if group in groups
    }
    ordered = sorted(returns)
    return {
        f"group_reward_std{suffix}": _mean([reward_stds[group] for group in ordered]),
        f"group_reward_mean{suffix}": _mean([_mean(returns[group]) for group in ordered]),
        f"group_reward_max{suffix}": _mean([returns[group][-1] for group in ordered]),
    }


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers)) if numbers else 0.0
