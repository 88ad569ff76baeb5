"""What a training batch looks like, in all and by environment."""

from __future__ import annotations

from collections.abc import Sequence

from rllib_ragen.credit.filters import FilterResult, group_metrics
from rllib_ragen.diagnostics.degenerate_replies import reply_statistics
from rllib_ragen.rollout.statistics import rollout_statistics
from rllib_ragen.types import Trajectory


def batch_statistics(
    labels: Sequence[str], own: Sequence[Trajectory], alive: Sequence[Trajectory], filtered: FilterResult
) -> dict[str, float]:
    """Returns rollout_statistics, reply_statistics and the groups' metrics, and of several environments each one's as
    `<label>/<name>`; NaN where an environment had no group in the batch.

    Args:
        labels: of the environments; empty for the only one.
        own: what policies that learn have played.
        alive: what of it has not failed.
        filtered: what the filter has kept of that.
    """
    found = rollout_statistics(own) | reply_statistics(alive) | filtered.metrics
    kept = {trajectory.group_id for trajectory in filtered.kept}
    for label in filter(None, labels):
        living = [trajectory for trajectory in alive if trajectory.env == label]
        groups = group_metrics(living, kept)
        if not living:
            groups |= dict.fromkeys((name for name in groups if name.startswith("group_")), float("nan"))
        played = rollout_statistics([trajectory for trajectory in own if trajectory.env == label])
        mine = played | reply_statistics(living) | groups
        found |= {f"{label}/{name}": value for name, value in mine.items()}
    return found
