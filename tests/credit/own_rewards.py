"""Reward functions as users write them, good ones and bad ones; tests name them by import path."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.types import Trajectory, Turn

NEVER = threading.Event()
"""Nobody sets it."""


def length(trajectory: Trajectory) -> int:
    return trajectory.num_reply_tokens


def places(trajectory: Trajectory, step: float = 1.0) -> list[float]:
    return [step * k for k in range(len(trajectory.turns))]


def different(trajectory: Trajectory) -> float:
    return sum(float(turn.reply_ids.sum()) for turn in trajectory.turns)


def of_a_turn(turn: Turn) -> float:
    return len(turn.reply_ids) / 10


async def slowly(turn: Turn) -> float:
    await asyncio.sleep(0)
    return 2.0


def together(trajectories: list[Trajectory]) -> Any:
    return np.arange(len(trajectories), dtype=np.float32)


async def together_async(trajectories: Sequence[Trajectory]) -> list[list[float]]:
    return [[1.0] * len(one.turns) for one in trajectories]


def of_the_run(turn: Turn, run: RunConfig, timeout_s: float) -> float:
    return run.rollout.group_size + timeout_s


class Counts:
    """Remembers how many it has judged."""

    def __init__(self, start: int) -> None:
        if start < 0:
            raise ValueError(f"start must be ≥ 0, got {start}")
        self.seen = start

    def __call__(self, trajectory: Trajectory) -> int:
        self.seen += 1
        return self.seen

    def state(self) -> dict[str, int]:
        return {"seen": self.seen}

    def restore(self, state: dict[str, int]) -> None:
        self.seen = state["seen"]


def spoils(trajectory: Trajectory) -> float:
    trajectory.turns[0].reward = 1e9
    trajectory.turns.clear()
    return 0.0


def fails_on_b(trajectory: Trajectory) -> float:
    if trajectory.group_id == "b":
        raise ValueError("no b,\nplease")
    return 1.0


def fails(turn: Turn) -> float:
    raise RuntimeError("nothing to give")


def exits(turn: Turn) -> float:
    raise SystemExit(3)


def hangs_on_b(trajectory: Trajectory) -> float:
    if trajectory.group_id == "b":
        NEVER.wait()
    return 1.0


async def hangs_on_b_async(trajectory: Trajectory) -> float:
    if trajectory.group_id == "b":
        await asyncio.Event().wait()
    return 1.0


def hangs(turn: Turn) -> float:
    NEVER.wait()
    return 1.0


def text(trajectory: Trajectory) -> Any:
    return "good"


def nothing(trajectory: Trajectory) -> Any:
    return None


def nan(turn: Turn) -> float:
    return float("nan")


def huge(turn: Turn) -> float:
    return 1e300


def too_many(trajectory: Trajectory) -> list[float]:
    return [0.0] * (len(trajectory.turns) + 1)


def one_for_all(trajectories: list[Trajectory]) -> Any:
    return 1.0


def too_few(trajectories: list[Trajectory]) -> Any:
    return [1.0]


def fails_on_group_1(trajectory: Trajectory) -> float:
    if trajectory.group_id == "1":
        raise KeyError("no such group")
    return 0.0


def seat(trajectory: Trajectory) -> bool:
    return trajectory.agent_id == "player_1"


def large(turn: Turn) -> float:
    return 1e38
