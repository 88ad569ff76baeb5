"""Filters by name, which select from the ranked groups those to train on; shipped ones, and the registry of users'
own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ragen_envs.open_names import OpenNames, check_function
from rllib_ragen.types import Trajectory

TOP_P_EPS = 0.01
"""Tolerance of `top_p`: how far the running sum of scores may stay below v · Σ, as in RAGEN's code."""


@dataclass(frozen=True)
class GroupRanking:
    """The input of a filter."""

    groups: tuple[str, ...]
    """The group_ids that may be kept, best score first; without groups of equal returns, unless these are allowed."""
    scores: Mapping[str, float]
    """Scores (`credit.filter_metric`) of *all* groups, by group_id."""
    members: Mapping[str, Sequence[Trajectory]]
    """Trajectories of all groups, by group_id."""
    value: float
    """The setting `credit.filter_value`."""


GroupFilter = Callable[[GroupRanking], Collection[str]]
"""A function that selects the groups to keep from `ranking.groups`; none: this update is skipped."""


def keep_all(ranking: GroupRanking) -> Collection[str]:
    """Keeps every group that may be kept."""
    return ranking.groups


def top_k(ranking: GroupRanking) -> Collection[str]:
    """Keeps the best groups, as many as the share v of *all* groups, also of those that cannot be kept; at least
    one.
    """
    return ranking.groups[: max(1, int(ranking.value * len(ranking.scores) + 1e-9))]  # 0.29 · 100 is 28.999…


def top_k_abs(ranking: GroupRanking) -> Collection[str]:
    """Keeps the best v groups."""
    return ranking.groups[: max(1, int(ranking.value))]


def top_p(ranking: GroupRanking) -> Collection[str]:
    """Keeps the best groups, until the running sum of scores is ≥ v · Σ − TOP_P_EPS."""
    if not ranking.groups:
        return ()
    running = np.cumsum([ranking.scores[group] for group in ranking.groups])
    return ranking.groups[: int(np.argmax(running >= ranking.value * running[-1] - TOP_P_EPS)) + 1]


def top_p_softmax(ranking: GroupRanking) -> Collection[str]:
    """Keeps the best groups, until the running sum of softmax(±scores) is ≥ v; at least one."""
    if not ranking.groups:
        return ()
    scores = [ranking.scores[group] for group in ranking.groups]
    running = np.cumsum(np.exp(-np.abs(np.array(scores) - scores[0])))
    return ranking.groups[: int(np.argmax(running >= ranking.value * running[-1])) + 1]


def min_p(ranking: GroupRanking) -> Collection[str]:
    """Keeps the groups with scores ≥ v · max."""
    if not ranking.groups:
        return ()
    least = ranking.value * ranking.scores[ranking.groups[0]]
    return [group for group in ranking.groups if ranking.scores[group] >= least]


def register_filter(name: str, group_filter: GroupFilter) -> None:
    """Registers a user's filter as `name`, for `credit.filter`.

    Args:
        name: letters, digits and `_ . + -`; a name that is registered already gets the new filter.
        group_filter: a function of a GroupRanking that returns the group_ids to keep.

    Raises:
        ValueError: the name of a shipped filter, or no function of one argument.
    """
    FILTERS.register(name, group_filter)


def filter_names() -> list[str]:
    """Returns the names of the filters that ship with the package."""
    return FILTERS.shipped()


def _check(thing: object) -> GroupFilter:
    return cast(GroupFilter, check_function(thing, "GroupRanking"))


_HERE = "rllib_ragen.credit.filter_rules"
FILTERS: OpenNames[GroupFilter] = OpenNames(
    "filter",
    "rllib_ragen.filters",
    {
        "none": f"{_HERE}:keep_all",
        "top_p": f"{_HERE}:top_p",
        "top_p_softmax": f"{_HERE}:top_p_softmax",
        "top_k": f"{_HERE}:top_k",
        "top_k_abs": f"{_HERE}:top_k_abs",
        "min_p": f"{_HERE}:min_p",
    },
    _check,
)
"""All filters by name."""
