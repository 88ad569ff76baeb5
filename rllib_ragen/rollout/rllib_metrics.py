"""An EnvRunner's metrics, in the form that RLlib expects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.rllib.utils.metrics import (
    EPISODE_LEN_MEAN,
    EPISODE_RETURN_MEAN,
    NUM_AGENT_STEPS_SAMPLED,
    NUM_AGENT_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
)

from rllib_ragen.rollout.game_episodes import Episode, agent_episodes


def log_episodes(metrics: Any, episodes: Sequence[Episode], window: int) -> int:
    """Logs the episodes on a MetricsLogger; an environment step is a turn → the number of turns.

    A multi-agent episode's return is the sum over its agents, its turns are all agents'.
    """
    turns = sum(len(own) for episode in episodes for own in agent_episodes(episode))
    for key, count in ((NUM_ENV_STEPS_SAMPLED, turns), (NUM_EPISODES, len(episodes))):
        metrics.log_value(key, count, reduce="sum")
    metrics.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, turns, reduce="lifetime_sum", with_throughput=True)
    metrics.log_value(NUM_EPISODES_LIFETIME, len(episodes), reduce="lifetime_sum")
    agents = [own for episode in episodes for own in agent_episodes(episode)]
    for agent in sorted({str(episode.agent_id) for episode in agents}):
        own = sum(len(episode) for episode in agents if str(episode.agent_id) == agent)
        metrics.log_value((NUM_AGENT_STEPS_SAMPLED, agent), own, reduce="sum")
        metrics.log_value((NUM_AGENT_STEPS_SAMPLED_LIFETIME, agent), own, reduce="lifetime_sum")
    for episode in episodes:
        total = sum(own.get_return() for own in agent_episodes(episode))
        metrics.log_value(EPISODE_RETURN_MEAN, total, reduce="mean", window=window)
        metrics.log_value(EPISODE_LEN_MEAN, len(episode), reduce="mean", window=window)
    return turns
