"""Plays episodes of several agents: specs in, every agent's trajectory out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.connectors import TurnConnectors
from rllib_ragen.rollout.conversation import Sampler
from rllib_ragen.rollout.engines.base import Engine
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.episode_loop import EpisodeLoop, Watcher
from rllib_ragen.rollout.game_answers import GameSpec
from rllib_ragen.rollout.game_session import GameSession, MapAgent
from rllib_ragen.types import Sampling, Trajectory


def collect_games(
    specs: Sequence[GameSpec],
    *,
    engines: Mapping[str, Engine],
    chat: ChatFormat,
    pool: EnvPool[MultiAgentEnv],
    map_agent: MapAgent,
    sampling: Sampling,
    max_context_tokens: int,
    max_games: int = 64,
    env_timeout_s: float | None = None,
    connectors: Mapping[str, TurnConnectors] | None = None,
    watcher: Watcher[MultiAgentEnv] | None = None,
) -> list[list[Trajectory]]:
    """Plays one game per spec.

    Every agent that a policy plays gets its own trajectory with its own prompts, tokens and rewards. A reward belongs
    to the agent's last turn before it, or to the first turn if the agent has not replied yet. An agent with rewards but
    no reply gets one turn without tokens, so that its return is right.

    An environment that raises, takes too long or breaks the rules of MultiAgentEnv (an unknown agent, a prompt after an
    agent's end) ends its own game as ENV_ERROR for all agents, a failed request its own game as ENGINE_ERROR; a context
    without room for one more token cuts the game off for all (CONTEXT_FULL). Other games go on.

    Args:
        specs: the games.
        engines: by policy id; no request in flight, before and after.
        chat: turns messages into tokens.
        pool: of the environments; stays its owner's.
        map_agent: asked once for every agent of a game, when it is first heard of (before the first prompt, where
            the environment tells its `possible_agents`).
        sampling: of every reply. Its seed is replaced by one per game, agent and turn.
        max_context_tokens: of prompts and replies of one agent.
        max_games: in flight at once.
        env_timeout_s: longest reset or step; None: no limit. The pool must be `threaded` for it to be kept.
        connectors: the user's, for prompts and replies, by policy id.
        watcher: is told what becomes of each episode; None: nobody.

    Returns:
        For each spec the trajectories of its agents, in order of their first occurrence.

    Raises:
        PolicyMappingError: an agent is mapped to a policy that does not exist.
        WholeBatchError: a connector fails.
        EngineDead: an engine is gone; nothing of the batch is returned.
    """
    samplers = {
        name: Sampler(engine, chat, sampling, max_context_tokens, (connectors or {}).get(name))
        for name, engine in engines.items()
    }
    sessions = [GameSession(spec, samplers, map_agent) for spec in specs]
    EpisodeLoop(engines, pool, max_episodes=max_games, env_timeout_s=env_timeout_s, watcher=watcher).run(sessions)
    return [session.trajectories for session in sessions]
