"""Trajectories for tests: written as turns of (prompt tokens, reply tokens, reward)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rllib_ragen.types import FloatArray, StopReason, Trajectory, Turn


def trajectory(
    group: str,
    turns: Sequence[tuple[int, int, float]],
    stop_reason: StopReason = StopReason.MAX_TURNS,
    states: Sequence[str] = "stuvwxyz",
) -> Trajectory:
    """Token ids count upwards from 0, behaviour log-probs are −(id + 1)/10; `states` are those of the turns."""
    built, start = [], 0
    for (num_prompt, num_reply, reward), state in zip(turns, states, strict=False):
        ids = np.arange(start, start + num_prompt + num_reply, dtype=np.int32)
        prompt_ids, reply_ids = ids[:num_prompt], ids[num_prompt:]
        logprobs = (-(reply_ids + 1) / 10).astype(np.float32)
        built.append(Turn(prompt_ids, reply_ids, logprobs, reward, policy_version=0, state=state))
        start += num_prompt + num_reply
    return Trajectory(group, env_seed=0, outcome_seed=0, turns=built, stop_reason=stop_reason)


def group_of(group: str, returns: Sequence[float]) -> list[Trajectory]:
    """One short single-turn trajectory per return."""
    return [trajectory(group, [(2, 3, value)]) for value in returns]


def values_at_trained(trajectory: Trajectory, values: Sequence[float]) -> FloatArray:
    """[num_tokens] the given values on the sampled tokens, and 99 (which nobody may read) on all others."""
    placed = np.full(trajectory.num_tokens, 99, np.float32)
    placed[trajectory.turn_index() >= 0] = values
    return placed
