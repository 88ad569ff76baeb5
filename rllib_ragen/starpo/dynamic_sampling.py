"""Dynamic sampling: groups with equal returns are replaced by further ones (DAPO, arXiv 2503.14476)."""

from __future__ import annotations

from collections.abc import Callable

from rllib_ragen.credit.group_scores import group_reward_stds
from rllib_ragen.types import Trajectory


def sample_with_reward_std(
    draw: Callable[[int], list[Trajectory]], num_groups: int, max_rounds: int
) -> tuple[list[Trajectory], dict[str, float]]:
    """Draws groups until `num_groups` have a reward std above 0 (without failed trajectories), or `max_rounds` are
    over.

    Args:
        draw: plays so many new groups.
        num_groups: number of groups wanted.
        max_rounds: most rounds of further sampling; 0: only the first draw.

    Returns:
        All trajectories, also of groups with equal returns; and the metrics sampling_rounds (with the first) and
        sampled_groups.
    """
    played = draw(num_groups)
    rounds, sampled = 1, num_groups
    while rounds <= max_rounds and (missing := num_groups - _with_reward_std(played)) > 0:
        played = [*played, *draw(missing)]
        rounds, sampled = rounds + 1, sampled + missing
    return played, {"sampling_rounds": float(rounds), "sampled_groups": float(sampled)}


def _with_reward_std(trajectories: list[Trajectory]) -> int:
    alive = [trajectory for trajectory in trajectories if not trajectory.stop_reason.failed]
    return sum(std > 0 for std in group_reward_stds(alive).values())
