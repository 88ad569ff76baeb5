"""Dynamic sampling: groups whose members all got the same return are replaced by further ones (DAPO, 2503.14476)."""

from __future__ import annotations

from collections.abc import Callable

from rllib_ragen.credit.group_scores import group_reward_stds
from rllib_ragen.types import Trajectory


def sample_with_reward_std(
    draw: Callable[[int], list[Trajectory]], num_groups: int, max_rounds: int
) -> tuple[list[Trajectory], dict[str, float]]:
    """Draws `num_groups` groups, and then as often as `max_rounds` allows as many as still lack to `num_groups` with
    reward std among trajectories that have not failed.

    Args:
        draw: plays so many groups that were not played before.
        num_groups: wanted.
        max_rounds: of further sampling; 0: only the first draw.

    Returns:
        Everything that was played, also what will not be learnt from; and sampling_rounds (the first included),
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
