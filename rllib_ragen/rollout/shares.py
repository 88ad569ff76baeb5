"""How the groups of a run are shared out among its environments, so that the weights hold from the first group on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """Whose turn a group is."""

    group: int
    """Number of the group in the run."""
    env: int
    """Index of the environment."""
    before: int
    """Groups that this environment had before."""


def shared_out(weights: Sequence[float], first_group: int, num_groups: int) -> list[Turn]:
    """Returns whose turns the groups `first_group`, … are; a function of these numbers alone, so nothing is remembered.

    The k-th group (k = 0, 1, …) of an environment with weight w is due at time (k + ½)/w, and groups are dealt in the
    order of these times (Webster's method, as in Sainte-Laguë's seats; equal times: the earlier environment first).
    So after any number of groups every environment has had its share up to about one, small weights get their turn,
    and what an iteration rounds away the next one makes good.

    Args:
        weights: of the environments, > 0.
        first_group: groups that the run has dealt before.
        num_groups: how many are dealt.
    """
    counts = _dealt(weights, first_group)
    found = []
    for group in range(first_group, first_group + num_groups):
        env = _next(weights, counts)
        found.append(Turn(group, env, counts[env]))
        counts[env] += 1
    return found


def _dealt(weights: Sequence[float], groups: int) -> list[int]:
    """Returns how many of the first `groups` each environment has had."""
    total, spare = sum(weights), len(weights) + 1
    # Nobody has fewer than this: shares differ from exact ones by less than the number of environments.
    counts = [max(0, int(groups * weight / total) - spare) for weight in weights]
    for _ in range(groups - sum(counts)):
        counts[_next(weights, counts)] += 1
    return counts


def _next(weights: Sequence[float], counts: Sequence[int]) -> int:
    return min(range(len(weights)), key=lambda env: ((counts[env] + 0.5) / weights[env], env))
