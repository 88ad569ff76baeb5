"""A game's trajectories ↔ RLlib's MultiAgentEpisode: the agents' own episodes are the token-exact trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_ragen.rollout.episodes import to_episode, to_trajectory
from rllib_ragen.types import Trajectory

Episode: TypeAlias = "SingleAgentEpisode | MultiAgentEpisode"


def to_multi_agent_episode(game_id: str, trajectories: Sequence[Trajectory]) -> MultiAgentEpisode:
    """Converts one finished game. `agent_episodes` are made by `to_episode`; env steps are not counted separately: the
    game's length is that of its longest agent."""
    episode = MultiAgentEpisode(
        id_=game_id, agent_module_ids={trajectory.agent_id: trajectory.module_id for trajectory in trajectories}
    )
    episode.agent_episodes = {trajectory.agent_id: to_episode(trajectory) for trajectory in trajectories}
    for own in episode.agent_episodes.values():
        own.multi_agent_episode_id = game_id
    episode.env_t = max((len(trajectory.turns) for trajectory in trajectories), default=0)
    episode.is_terminated = any(own.is_terminated for own in episode.agent_episodes.values())
    episode.is_truncated = not episode.is_terminated
    return episode


def to_trajectories(episodes: Iterable[Episode]) -> list[Trajectory]:
    """Returns the trajectories of single- and multi-agent episodes, in order."""
    return [to_trajectory(own) for episode in episodes for own in agent_episodes(episode)]


def agent_episodes(episode: Episode) -> list[SingleAgentEpisode]:
    """Returns the episode itself, or the episodes of its agents."""
    return list(episode.agent_episodes.values()) if isinstance(episode, MultiAgentEpisode) else [episode]
