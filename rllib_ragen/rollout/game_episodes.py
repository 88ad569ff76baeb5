"""A game's trajectories ↔ RLlib's MultiAgentEpisode: the agents' own episodes are the token-exact trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from rllib_ragen.rollout.conversation import Heard
from rllib_ragen.rollout.episodes import LiveEpisode, TextEpisode
from rllib_ragen.types import Trajectory


class GameEpisode(MultiAgentEpisode):
    """What RLlib's callbacks get of a game: `agent_episodes` hold a TextEpisode for each agent that a policy plays.

    Env steps are not counted apart from the agents': the game's length is that of its longest agent. `custom_data` has
    the game's `group_id` and `split`.
    """

    @property
    def trajectories(self) -> dict[str, Trajectory]:
        """Trajectories by agent, as far as they have come."""
        return {agent: own.trajectory for agent, own in self.agent_episodes.items()}

    def module_for(self, agent_id: str) -> str:
        """Returns the policy that plays an agent."""
        return str(self.agent_episodes[agent_id].module_id)


Episode: TypeAlias = "TextEpisode | GameEpisode"


class LiveGame:
    """A MultiAgentEpisode that grows with the trajectories of the agents that are playing."""

    def __init__(self, game_id: str, split: str = "") -> None:
        self.episode = GameEpisode(id_=game_id)
        self.episode.custom_data.update(group_id=game_id, split=split)
        self._split = split
        self._agents: dict[str, LiveEpisode] = {}

    def catch_up(self, agents: Mapping[str, tuple[Trajectory, Heard]]) -> GameEpisode:
        """Adds what has happened since the last call to the agents, each with its newest prompt."""
        for agent, (trajectory, heard) in agents.items():
            self._agent(agent, trajectory).catch_up(heard)
        self._count()
        return self.episode

    def close(self, trajectories: Sequence[Trajectory]) -> GameEpisode:
        """Returns the episode of the whole game, which is over."""
        episode = self.episode
        for trajectory in trajectories:
            self._agent(trajectory.agent_id, trajectory).close()
        self._count()
        episode.is_terminated = any(own.is_terminated for own in episode.agent_episodes.values())
        episode.is_truncated = not episode.is_terminated
        return episode

    def _agent(self, agent: str, trajectory: Trajectory) -> LiveEpisode:
        if agent not in self._agents:
            self._agents[agent] = LiveEpisode(trajectory, self._split)
            own = self._agents[agent].episode
            own.multi_agent_episode_id = self.episode.id_
            self.episode.agent_episodes[agent] = own
        return self._agents[agent]

    def _count(self) -> None:
        self.episode.env_t = max(map(len, self.episode.agent_episodes.values()), default=0)


def to_trajectories(episodes: Iterable[Episode]) -> list[Trajectory]:
    """Returns the trajectories of single- and multi-agent episodes, in order."""
    return [own.trajectory for episode in episodes for own in agent_episodes(episode)]


def agent_episodes(episode: Episode) -> list[TextEpisode]:
    """Returns the episode itself, or those of its agents."""
    return list(episode.agent_episodes.values()) if isinstance(episode, GameEpisode) else [episode]
