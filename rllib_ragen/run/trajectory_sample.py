"""The choice of an iteration's trajectories that are logged for people to read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragen_envs.tree import Tree
from rllib_ragen.credit.groups import group_members, reward_std
from rllib_ragen.rollout.trajectory_json import to_json
from rllib_ragen.types import FloatArray, Trajectory

MAX_GROUPS, MAX_MEMBERS = 4, 8
"""Most groups and members of an iteration that are kept: chosen freely, some megabytes in a long run."""


def sample_records(trajectories: Sequence[Trajectory], advantages: Sequence[FloatArray | None]) -> list[Tree]:
    """Returns JSON records of the group that differs most (up to 8 members) and of the first member of 3 other groups,
    of other environments first, if there are several.

    Args:
        trajectories: trajectories of one iteration.
        advantages: [num_tokens] for each; None if the update did not use it.

    Returns:
        The records of `to_json`, with `member`, the trajectory's place in its group, and in each turn `advantages`, one
        per sampled token, if there are any.
    """
    members = group_members(trajectories)
    returns = np.array([trajectory.episode_return for trajectory in trajectories], np.float64)
    whole = max(members, key=lambda group: reward_std(returns[members[group]]), default=None)
    rest = [group for group in members if group != whole]
    env_of = {group: trajectories[own[0]].env for group, own in members.items()}
    first_of = {env_of[group]: group for group in reversed(rest) if env_of[group] != env_of[whole or group]}
    others = sorted(rest, key=lambda group: group not in first_of.values())[: MAX_GROUPS - 1]
    return [
        _record(trajectories[index], member, advantages[index])
        for group in members
        if group == whole or group in others
        for member, index in enumerate(members[group][: MAX_MEMBERS if group == whole else 1])
    ]


def _record(trajectory: Trajectory, member: int, advantages: FloatArray | None) -> Tree:
    record = {"member": member, **to_json(trajectory)}
    if advantages is not None:
        turn_index = trajectory.turn_index()
        for k, turn in enumerate(record["turns"]):
            turn["advantages"] = [round(float(a), 4) for a in advantages[turn_index == k]]
    return record
