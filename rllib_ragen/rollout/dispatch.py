"""Sampling on many runners: specs are spread over the healthy ones, and lost ones are played again elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from ray.rllib.env.env_runner_group import EnvRunnerGroup

from rllib_ragen.rollout.collect import EpisodeSpec
from rllib_ragen.rollout.env_runner import Played
from rllib_ragen.rollout.multi_agent_episodes import Episode

_MAX_ROUNDS = 6
_RESTART_POLL_S = 0.5
logger = logging.getLogger(__name__)


def play_on_runners(
    runners: EnvRunnerGroup,
    specs: Sequence[EpisodeSpec],
    *,
    greedy: bool,
    count: bool,
    timeout_s: float,
    restore: Callable[[], object],
) -> tuple[list[Episode], list[Any]]:
    """Plays every spec exactly once, whatever happens to single runners.

    Args:
        runners: with at least one remote runner.
        specs: the episodes.
        greedy: as in LLMEnvRunner.sample.
        count: likewise.
        timeout_s: longest wait for all of it.
        restore: brings restarted runners back, with current weights.

    Returns:
        (episodes in the order of `specs`, metrics of the calls that came back).

    Raises:
        RuntimeError: sampling itself fails, runners die again and again, or the time is up.
    """
    deadline = time.monotonic() + timeout_s
    pending = list(range(len(specs)))
    done: dict[int, Episode] = {}
    metrics: list[Any] = []
    for _ in range(_MAX_ROUNDS):
        shares = _spread(pending, _healthy_ids(runners, restore, deadline))
        for runner, played in _call(runners, specs, shares, greedy, count, max(0.0, deadline - time.monotonic())):
            if played.error:
                raise RuntimeError(f"sampling failed on env runner {runner}: {played.error}")
            done.update(zip(shares[runner], played.episodes, strict=True))
            metrics.append(played.metrics)
        pending = [index for index in pending if index not in done]
        if not pending:
            return [done[index] for index in range(len(specs))], metrics
        if time.monotonic() > deadline:
            raise RuntimeError(f"rollout.timeout_s: {len(pending)} of {len(specs)} episodes after {timeout_s:g} s")
        logger.warning("%d of %d episodes were lost with their runners: played again.", len(pending), len(specs))
        restore()
    raise RuntimeError(f"env runners died in {_MAX_ROUNDS} rounds of sampling in a row; see their logs")


def _spread(pending: Sequence[int], runner_ids: Sequence[int]) -> dict[int, list[int]]:
    """Spec indices by runner. Groups are dealt out card by card: their episodes are of similar length."""
    shares = {runner: list(pending[k :: len(runner_ids)]) for k, runner in enumerate(runner_ids)}
    return {runner: share for runner, share in shares.items() if share}


def _call(
    runners: EnvRunnerGroup,
    specs: Sequence[EpisodeSpec],
    shares: dict[int, list[int]],
    greedy: bool,
    count: bool,
    timeout_s: float,
) -> list[tuple[int, Played]]:
    """`play` on every runner of `shares`; those that died or are late are missing."""
    results = runners._worker_manager.foreach_actor(
        func=["play"] * len(shares),
        kwargs=[{"specs": [specs[i] for i in share], "greedy": greedy, "count": count} for share in shares.values()],
        remote_actor_ids=list(shares),
        timeout_seconds=timeout_s,
    )
    return [(result.actor_id, result.get()) for result in results.ignore_errors()]


def _healthy_ids(runners: EnvRunnerGroup, restore: Callable[[], object], deadline: float) -> list[int]:
    """Ids of the healthy runners; waits while there is none (an empty list would mean *all* to RLlib)."""
    while not (healthy := list(runners.healthy_env_runner_ids())):
        if time.monotonic() > deadline:
            raise RuntimeError("rollout.timeout_s: no healthy env runner came back in time")
        time.sleep(_RESTART_POLL_S)
        restore()
    return healthy
