"""DAPO's soft overlong punishment: a penalty on replies near their length limit."""

from __future__ import annotations

from dataclasses import replace

from rllib_ragen.types import Trajectory


def overlong_penalty(length: int, limit: int, cache: int) -> float:
    """Computes the penalty of a reply of `length` tokens, with `limit` L_max and window `cache` L_cache.

    0 up to L_max − L_cache, then (L_max − L_cache − length)/L_cache, which is −1 at L_max, where replies are cut off.

    Yu et al. 2025, arXiv 2503.14476, equation 13.
    """
    return max(-1.0, min(0.0, (limit - cache - length) / cache))


def without_overlong(trajectory: Trajectory, limit: int, cache: int | None) -> Trajectory:
    """Returns the trajectory with each turn's penalty added to its reward; a copy, or the same with `cache` None.

    A trajectory has a reply per turn, each with its own limit, so each turn has its own penalty.
    """
    if cache is None:
        return trajectory
    turns = [
        replace(turn, reward=turn.reward + overlong_penalty(len(turn.reply_ids), limit, cache))
        for turn in trajectory.turns
    ]
    return replace(trajectory, turns=turns)
