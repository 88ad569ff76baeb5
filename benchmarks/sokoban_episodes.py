"""Sokoban episodes of the embedded model, as the rollout benchmarks play them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import rllib_ragen.models.tiny
from benchmarks.side_by_side import Timed, timed
from ragen_envs.registry import make_text_env
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.engines.base import Engine
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import Sampling, Trajectory

TINY = Path(rllib_ragen.models.tiny.__file__).parent / "checkpoint"
MAX_CONTEXT, MAX_REPLY = 1024, 72
"""Tokens of an episode and of a reply: this package's defaults."""
GROUP_SIZE = 4
"""Trajectories per room: this package's default."""


def episode_specs(first: int, count: int) -> list[EpisodeSpec]:
    """Returns `count` episodes with seeds from `first`, in groups as in training."""
    return [EpisodeSpec(f"g{i // GROUP_SIZE}", i // GROUP_SIZE, i, i) for i in range(first, first + count)]


def play_episodes(
    engine: Engine, chat: ChatFormat, specs: Sequence[EpisodeSpec], rows: int, max_context: int, style: str
) -> tuple[Timed, list[Trajectory]]:
    """Plays one episode per spec, `rows` in flight, and times the generated tokens. None may fail."""
    trajectories: list[Trajectory] = []

    def work() -> float:
        trajectories.extend(
            collect(
                specs,
                engine=engine,
                chat=chat,
                make_env=lambda: make_text_env("sokoban", {"observation": "both"}, {"prompt_style": style}),
                sampling=Sampling(MAX_REPLY, chat.stop_token_ids),
                max_context_tokens=max_context,
                max_concurrent=rows,
            )
        )
        return float(sum(trajectory.num_reply_tokens for trajectory in trajectories))

    result = timed(work)
    assert not any(trajectory.stop_reason.failed for trajectory in trajectories)
    return result, trajectories
