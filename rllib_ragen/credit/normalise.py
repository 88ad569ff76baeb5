"""Normalisation of rewards before the estimator. Filters and metrics read the raw ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.groups import Returns, centred, group_members, reward_std
from rllib_ragen.types import Trajectory

ASYM_CLIP = (-1.0, 3.0)
"""Bounds of a standardised return with `asym_clip`, as in RAGEN's code."""


def normalised_rewards(trajectories: Sequence[Trajectory], section: CreditSection) -> list[Trajectory]:
    """Returns the trajectories with rewards whose sums are the normalised returns R′: copies, or the same objects if
    `reward_norm` is none.

    `reward_norm` mean: R′ = R − mean; mean_std: (R − mean)/(std + 1e-6), 0 where all are equal, std with ddof = 1;
    asym_clip: mean_std clamped to [−1, 3]. `reward_grouping`: statistics of each group, of all trajectories of one role
    (RAGEN's "inductive" takes an environment tag; here an environment's trajectories are given by themselves, and
    within one roles differ), or of the batch.
    Every turn's reward gets R′'s scale; what then is missing to R′ goes to the last turn. Source: RAGEN's code.
    """
    if section.reward_norm == "none":
        return list(trajectories)
    returns = np.array([trajectory.episode_return for trajectory in trajectories], np.float64)
    scales, wanted = np.ones_like(returns), np.zeros_like(returns)
    for members in _members(trajectories, section.reward_grouping):
        scales[members], wanted[members] = _normalised(returns[members], section.reward_norm)
    return [_with_return(*parts) for parts in zip(trajectories, scales.tolist(), wanted.tolist(), strict=True)]


def _members(trajectories: Sequence[Trajectory], grouping: str) -> list[list[int]]:
    """Returns the positions of trajectories that share statistics."""
    if grouping == "group":
        return list(group_members(trajectories).values())
    found: dict[tuple[str, str], list[int]] = {}
    for i, trajectory in enumerate(trajectories):
        key = (trajectory.module_id, trajectory.agent_id) if grouping == "inductive" else ("", "")
        found.setdefault(key, []).append(i)
    return list(found.values())


def _normalised(returns: Returns, method: str) -> tuple[float, Returns]:
    if method == "mean":
        return 1.0, centred(returns)
    scale = 1.0 / (reward_std(returns) + 1e-6) if reward_std(returns) > 0 else 1.0
    wanted = centred(returns) * scale
    return scale, np.clip(wanted, *ASYM_CLIP) if method == "asym_clip" else wanted


def _with_return(trajectory: Trajectory, scale: float, wanted: float) -> Trajectory:
    if not trajectory.turns:
        return trajectory
    rewards = [turn.reward * scale for turn in trajectory.turns]
    rewards[-1] += wanted - sum(rewards)
    turns = [replace(turn, reward=reward) for turn, reward in zip(trajectory.turns, rewards, strict=True)]
    return replace(trajectory, turns=turns)
