"""Statistics of a batch of trajectories."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from rllib_ragen.types import Trajectory


def rollout_statistics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns means over trajectories that have not failed (NaN if there is none); num_failed counts the others.

    success, return_mean (the environment's own), turns_mean and context_tokens_mean are per trajectory; valid_ratio,
    actions_mean and reply_tokens_mean per turn; finished_ratio: episodes that ended by the task and not by a cap;
    prefix_hit_rate: share of the prompts' tokens (each turn's whole context) that the engine had in its cache.
    """
    alive = [trajectory for trajectory in trajectories if not trajectory.stop_reason.failed]
    turns = [turn for trajectory in alive for turn in trajectory.turns]
    return {
        "success": _mean([trajectory.success for trajectory in alive]),
        "return_mean": _mean([trajectory.env_return for trajectory in alive]),
        "turns_mean": _mean([len(trajectory.turns) for trajectory in alive]),
        "context_tokens_mean": _mean([trajectory.num_tokens for trajectory in alive]),
        # A seat that is paid and never replies has a turn, too, but nothing that could be valid.
        "valid_ratio": _mean([turn.valid for turn in turns if len(turn.reply_ids)]),
        "actions_mean": _mean([turn.num_actions for turn in turns]),
        "reply_tokens_mean": _mean([len(turn.reply_ids) for turn in turns]),
        "finished_ratio": _mean([trajectory.stop_reason in ("goal", "failed") for trajectory in alive]),
        "prefix_hit_rate": _hit_rate(alive),
        "num_failed": float(len(trajectories) - len(alive)),
    }


def evaluation_statistics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns rollout_statistics of an evaluation, in which `success` is the mean over distinct instances' means.

    Adds distinct_instances, and success_error, the standard error over them (NaN for fewer than two).
    """
    means = list(success_by_instance(trajectories).values())
    return rollout_statistics(trajectories) | {
        "success": _mean(means),
        "success_error": clustered_error(means),
        "distinct_instances": float(len(means)),
    }


def success_by_instance(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns the mean success of each instance, by a digest of its key, without failed trajectories."""
    found: dict[str, list[bool]] = {}
    for trajectory in trajectories:
        if not trajectory.stop_reason.failed:
            found.setdefault(_digest(trajectory.instance), []).append(trajectory.success)
    return {key: _mean(successes) for key, successes in found.items()}


def clustered_error(means: Sequence[float]) -> float:
    """Returns the standard error of a mean over instances; NaN for fewer than two.

    Episodes on one instance share its difficulty: they are not independent samples of the split.
    """
    return float(np.std(means, ddof=1) / np.sqrt(len(means))) if len(means) > 1 else float("nan")


def _digest(key: str) -> str:
    """Returns 48 bits of a hash: two of 10,000 instances are equal with a chance of 2e-7."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


def policy_lag(trajectories: Sequence[Trajectory], version: int) -> float:
    """Returns the mean over turns of the number of updates from the weights that sampled to `version`; 0: on-policy."""
    return _mean([version - turn.policy_version for trajectory in trajectories for turn in trajectory.turns])


def _hit_rate(trajectories: Sequence[Trajectory]) -> float:
    cached = prompted = 0
    for trajectory in trajectories:
        context = 0
        for turn in trajectory.turns:
            context += len(turn.prompt_ids)
            prompted += context
            cached += turn.cached_tokens
            context += len(turn.reply_ids)
    return cached / prompted if prompted else float("nan")


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers)) if numbers else float("nan")
