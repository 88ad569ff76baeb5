"""Selection of the groups to train on by their reward std (StarPO-S, arXiv 2504.20073; RAGEN-2, 2604.06268)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.estimator import refuse_failed
from rllib_ragen.credit.filter_rules import FILTERS, GroupRanking
from rllib_ragen.credit.group_scores import Scores, group_reward_stds, group_scores
from rllib_ragen.credit.groups import env_labels, group_members
from rllib_ragen.types import Trajectory


@dataclass(frozen=True)
class FilterResult:
    """The result of a filter. An empty `kept` means: skip this update."""

    kept: list[Trajectory]
    """Trajectories of the kept groups, in their original order."""
    metrics: dict[str, float]
    kept_ratios: dict[str, float]
    """Share of its groups that was kept, by an environment's label."""


def filter_groups(trajectories: Sequence[Trajectory], section: CreditSection) -> FilterResult:
    """Keeps or drops whole groups by their score; the choice does not depend on the trajectories' order.

    A group whose returns are all equal is never kept, whatever its score, unless `filter_zero_spread` is on, or
    neither a filter nor dynamic sampling is. Equal scores are ordered by group_id. Of several environments in a run
    each is filtered by itself: what is a large std in one may be none in another.

    Metrics: num_groups, kept_groups, kept_ratio (of groups, 0 … 1), zero_spread_groups (before; NaN where no group has
    two members to be compared); over groups before filtering and over the kept ones (suffix _kept): group_reward_std
    (mean of the in-group std, ddof = 1), group_reward_mean and group_reward_max (means of the in-group mean and
    maximum). 0 if there is no group.

    Raises ValueError for a failed trajectory, and for a filter that keeps anything but groups of `GroupRanking.groups`.
    """
    refuse_failed(trajectories)
    by_env = {env: [t for t in trajectories if t.env == env] for env in env_labels(trajectories)}
    kept_of = {env: _kept(own, section) for env, own in by_env.items()}
    kept = {group for groups in kept_of.values() for group in groups}
    ratios = {env: len(kept_of[env]) / len(group_members(own)) for env, own in by_env.items()}
    return FilterResult([t for t in trajectories if t.group_id in kept], group_metrics(trajectories, kept), ratios)


def group_metrics(trajectories: Sequence[Trajectory], kept: Collection[str]) -> dict[str, float]:
    """Returns the metrics of `filter_groups`, of trajectories whose groups in `kept` were kept."""
    reward_stds = group_reward_stds(trajectories)
    own = {group for group in reward_stds if group in kept}
    return {
        "num_groups": float(len(reward_stds)),
        "kept_groups": float(len(own)),
        "kept_ratio": len(own) / len(reward_stds) if reward_stds else 0.0,
        "zero_spread_groups": _alike(reward_stds, group_members(trajectories)),
        **_rewards(trajectories, set(reward_stds), reward_stds, ""),
        **_rewards(trajectories, own, reward_stds, "_kept"),
    }


def _kept(trajectories: Sequence[Trajectory], section: CreditSection) -> set[str]:
    """Returns the groups of one environment that are kept."""
    reward_stds = group_reward_stds(trajectories)
    scores = group_scores(trajectories, section.filter_metric)
    keeps_flat = section.filter_zero_spread or (section.filter == "none" and section.dynamic_sampling_rounds == 0)
    sign = 1 if section.filter_direction == "largest" else -1
    ranked = sorted(
        (group for group in scores if keeps_flat or reward_stds[group] > 0),
        key=lambda group: (-sign * scores[group], group),
    )
    members = {group: [trajectories[i] for i in found] for group, found in group_members(trajectories).items()}
    return _chosen(section.filter, GroupRanking(tuple(ranked), scores, members, section.filter_value))


def _chosen(name: str, ranking: GroupRanking) -> set[str]:
    kept: Collection[str] = FILTERS.resolve(name, "credit.filter")(ranking)
    if isinstance(kept, str) or not set(kept) <= set(ranking.groups):
        raise ValueError(f"credit.filter={name} keeps {kept!r}, which are not all groups that may be kept")
    return set(kept)


def _alike(reward_stds: Scores, members: Mapping[str, Sequence[int]]) -> float:
    if reward_stds and all(len(own) < 2 for own in members.values()):
        return float("nan")
    return float(sum(std == 0 for std in reward_stds.values()))


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
