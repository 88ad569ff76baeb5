"""Continuous rollouts of multi-agent text environments: one engine per policy, a token history of its own per agent.

A game waits only for its own agents: as soon as all that it has prompted have replied it is stepped, whatever the other
games do. Requests of one policy are batched over all games and agents.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from ragen_envs.seeds import Stream, seed_of
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.context import Context
from rllib_ragen.rollout.engines.base import Engine, EngineFailure
from rllib_ragen.rollout.env_pool import EnvPool, EnvSlot
from rllib_ragen.rollout.pending_env_calls import PendingEnvCalls
from rllib_ragen.rollout.scripted_seats import script_of
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import IntArray, Sampled, Sampling, StopReason, Trajectory, Turn

_ALL = "__all__"
_MAX_IDLE = 1_000
"""Steps in a row in which an environment may prompt nobody."""
_NO_TOKENS: IntArray = np.zeros(0, np.int32)

Answer = tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]


@dataclass(frozen=True)
class GameSpec(EpisodeSpec):
    """An episode of several agents."""

    seats: tuple[tuple[str, str], ...] = ()
    """(agent, policy id or `script:<player>`) of the agents whose player is given; others are mapped to a policy."""


class LineUpError(ValueError):
    """Agents and policies do not fit together: a mistake in the config, not of one game."""


MapAgent = Callable[[str, GameSpec], str]
"""(agent, spec) → its policy's id, or `script:<player>`."""


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
) -> list[list[Trajectory]]:
    """Plays one game per spec.

    Every agent that a policy plays gets a trajectory of its own with its own prompts, tokens and rewards. A reward goes
    to the agent's last turn before it; one that comes before the agent has replied goes to its first. An agent that is
    paid and never replies gets one turn without tokens, so that its return is right.

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

    Returns:
        For each spec the trajectories of its agents, in the order in which they were first heard of.

    Raises:
        LineUpError: an agent is mapped to a policy that does not exist.
        EngineDead: an engine is gone; nothing of the batch is returned.
    """
    collector = _Collector(engines, chat, pool, map_agent, sampling, max_context_tokens, PendingEnvCalls(env_timeout_s))
    try:
        return collector.run(specs, max_games)
    except BaseException:
        for engine in engines.values():
            engine.reset()
        raise
    finally:
        collector.abandon_envs()


@dataclass
class _Agent:
    """One agent of one game."""

    key: int
    index: int
    """In the order in which the game's agents were first heard of."""
    context: Context
    trajectory: Trajectory
    unearned: float = 0.0
    """Rewards before its first reply."""
    state: str = ""
    ended: bool = False

    def pay(self, reward: float) -> None:
        """The reward belongs to what the agent did last."""
        if self.trajectory.turns:
            self.trajectory.turns[-1].reward += reward
        else:
            self.unearned += reward

    def close(self, reason: StopReason) -> None:
        """It will not reply any more."""
        self.ended, self.trajectory.stop_reason = True, reason
        if self.unearned and not self.trajectory.turns:
            nothing = np.zeros(0, np.float32)
            self.trajectory.turns.append(Turn(_NO_TOKENS, _NO_TOKENS, nothing, self.unearned, 0))


@dataclass
class _Game:
    """A game begun and not done."""

    key: int
    spec: GameSpec
    slot: EnvSlot[MultiAgentEnv]
    system: str = ""
    instance_key: str = ""
    known: tuple[str, ...] = ()
    """The environment's possible agents, if it tells them."""
    agents: dict[str, _Agent] = field(default_factory=dict)
    scripted: set[str] = field(default_factory=set)
    replies: dict[str, str] = field(default_factory=dict)
    awaited: set[str] = field(default_factory=set)
    idle: int = 0


class _RuleBroken(Exception):
    """The environment does not keep MultiAgentEnv's rules."""


@dataclass
class _Collector:
    engines: Mapping[str, Engine]
    chat: ChatFormat
    pool: EnvPool[MultiAgentEnv]
    map_agent: MapAgent
    sampling: Sampling
    max_context_tokens: int
    waits: PendingEnvCalls[_Game]
    live: dict[int, _Game] = field(default_factory=dict)
    requested: dict[int, tuple[_Game, str]] = field(default_factory=dict)
    """By the agent's key; all engines together."""
    done: dict[int, list[Trajectory]] = field(default_factory=dict)
    next_key: int = 0

    def run(self, specs: Sequence[GameSpec], max_games: int) -> list[list[Trajectory]]:
        queue = deque(enumerate(specs))
        while len(self.done) < len(specs):
            while queue and len(self.live) < max_games:
                self._start(*queue.popleft())
            self.waits.settle(bool(self.requested), self._env_failed)
            # Sorted, so that the order of everything that follows is the same in every run.
            for module_id in sorted({self._module(*asked) for asked in self.requested.values()}):
                for key, result in self.engines[module_id].poll():
                    # A game that another engine's reply has just ended took its other requests with it.
                    if key in self.requested:
                        self._on_reply(*self.requested.pop(key), result)
        return [self.done[key] for key in range(len(specs))]

    def abandon_envs(self) -> None:
        for game in self.live.values():
            game.slot.close()

    def _module(self, game: _Game, name: str) -> str:
        return game.agents[name].trajectory.module_id

    def _start(self, key: int, spec: GameSpec) -> None:
        game = _Game(key, spec, self.pool.borrow())
        self.live[key] = game
        self.waits.ask(key, game, game.slot, lambda env: _reset(env, spec), self._on_reset)

    def _env_failed(self, game: _Game, error: str) -> None:
        self._finish(game, StopReason.ENV_ERROR, error)

    def _on_reset(self, game: _Game, answer: tuple[str, str, tuple[str, ...], dict[str, Any], dict[str, Any]]) -> None:
        game.system, game.instance_key, game.known, prompts, infos = answer
        try:
            for name in game.known:
                self._meet(game, name)
            self._prompt(game, prompts, infos)
        except _RuleBroken as broken:
            self._env_failed(game, str(broken))

    def _meet(self, game: _Game, name: str) -> _Agent | None:
        """The agent; None for one that a script plays. It is mapped when it is first heard of."""
        if name in game.agents or name in game.scripted:
            return game.agents.get(name)
        if game.known and name not in game.known:
            raise _RuleBroken(f"unknown agent {name!r}; the environment's possible_agents: {', '.join(game.known)}")
        spec = game.spec
        module_id = dict(spec.seats).get(name) or self.map_agent(name, spec)
        if script_of(module_id) is not None:
            game.scripted.add(name)
            return None
        if module_id not in self.engines:
            raise LineUpError(
                f"multi_agent: agent {name!r} is mapped to policy {module_id!r};"
                f" allowed: {', '.join(sorted(self.engines))}"
            )
        group = f"{module_id}/{name}/{spec.group_id}"
        trajectory = Trajectory(group, spec.env_seed, spec.outcome_seed, module_id=module_id, agent_id=name)
        trajectory.instance_key = game.instance_key
        agent = _Agent(self.next_key, len(game.agents), Context(self.chat), trajectory)
        self.next_key += 1
        game.agents[name] = agent
        return agent

    def _prompt(self, game: _Game, prompts: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        """Asks for the replies of all agents that the environment has prompted."""
        asked: dict[str, _Agent] = {}
        for name, message in prompts.items():
            agent = self._meet(game, name)
            if agent is None:
                raise _RuleBroken(f"agent {name!r} is prompted, but a script plays it")
            if agent.ended:
                raise _RuleBroken(f"agent {name!r} is prompted after its end")
            if not isinstance(message, str):
                raise _RuleBroken(f"agent {name!r} is prompted with a {type(message).__name__}, not with text")
            agent.state = str(infos.get(name, {}).get("state", ""))
            if agent.trajectory.turns:
                agent.context.next(message)
            else:
                agent.context.first(game.system, message)
            asked[name] = agent
        if any(self.max_context_tokens - len(agent.context.token_ids) < 1 for agent in asked.values()):
            self._finish(game, StopReason.CONTEXT_FULL)
            return
        game.idle = 0 if asked else game.idle + 1
        if game.idle > _MAX_IDLE:
            raise _RuleBroken(f"nobody was prompted in {_MAX_IDLE} steps in a row, and the game is not over")
        game.replies, game.awaited = {}, set(asked)
        for name, agent in asked.items():
            self._request(game, name, agent)
        if not asked:
            self._step(game)

    def _request(self, game: _Game, name: str, agent: _Agent) -> None:
        room = self.max_context_tokens - len(agent.context.token_ids)
        seed = seed_of(Stream.TURN_SAMPLING, game.spec.sampling_seed, agent.index, len(agent.trajectory.turns))
        sampling = replace(self.sampling, max_tokens=min(room, self.sampling.max_tokens), seed=seed)
        self.requested[agent.key] = (game, name)
        self.engines[agent.trajectory.module_id].add(agent.key, agent.context.token_ids, sampling)

    def _on_reply(self, game: _Game, name: str, result: Sampled | EngineFailure) -> None:
        agent = game.agents[name]
        if isinstance(result, EngineFailure):
            self._finish(game, StopReason.ENGINE_ERROR, f"agent {name!r}: {result.error}")
            return
        turn = agent.context.reply(result)
        turn.state, turn.reward, agent.unearned = agent.state, agent.unearned, 0.0
        agent.trajectory.turns.append(turn)
        if not np.isfinite(turn.logprobs).all():
            self._finish(game, StopReason.ENGINE_ERROR, f"agent {name!r}: the engine gave non-finite log-probs")
            return
        game.replies[name] = turn.reply
        game.awaited.discard(name)
        if not game.awaited:
            self._step(game)

    def _step(self, game: _Game) -> None:
        replies = game.replies
        self.waits.ask(game.key, game, game.slot, lambda env: env.step(replies), self._on_step)

    def _on_step(self, game: _Game, answer: Answer) -> None:
        try:
            self._read_step(game, answer)
        except _RuleBroken as broken:
            self._env_failed(game, str(broken))

    def _read_step(self, game: _Game, answer: Answer) -> None:
        prompts, rewards, terminated, truncated, infos = answer
        for name in game.replies:
            turn, info = game.agents[name].trajectory.turns[-1], infos.get(name, {})
            turn.valid, turn.num_actions = bool(info.get("valid", True)), len(info.get("actions", [None]))
        for name, reward in rewards.items():
            agent = self._meet(game, name)
            if not math.isfinite(reward):
                raise _RuleBroken(f"agent {name!r} got a reward of {reward}")
            if agent is not None:
                agent.pay(float(reward))
        over = bool(terminated.get(_ALL) or truncated.get(_ALL))
        for name in [*game.agents] if over else sorted({*terminated, *truncated} - {_ALL}):
            agent = self._meet(game, name)
            if agent is not None and not agent.ended and (over or terminated.get(name) or truncated.get(name)):
                cut = bool(truncated.get(name) or (truncated.get(_ALL) and not terminated.get(name)))
                _end(agent, infos.get(name, {}), cut)
        if over or (game.agents and all(agent.ended for agent in game.agents.values())):
            self._finish(game)
            return
        last_words = {name for name, agent in game.agents.items() if terminated.get(name) or truncated.get(name)}
        self._prompt(game, {name: text for name, text in prompts.items() if name not in last_words}, infos)

    def _finish(self, game: _Game, reason: StopReason | None = None, error: str = "") -> None:
        """Ends the game; with a `reason` also for the agents that had ended, if it is a failure."""
        for agent in game.agents.values():
            if reason is not None and (reason.failed or not agent.ended):
                agent.close(reason)
                agent.trajectory.error = error
            self.requested.pop(agent.key, None)
            self.engines[agent.trajectory.module_id].forget(agent.key)
        self.done[game.key] = [agent.trajectory for agent in game.agents.values()]
        if reason is not None and reason.failed and not game.agents:
            self.done[game.key] = [self._failed_alone(game, reason, error)]
        del self.live[game.key]
        if reason is StopReason.ENV_ERROR:
            # Its state is unknown, and it may still be busy.
            game.slot.close()
        else:
            self.pool.give_back(game.slot)

    def _failed_alone(self, game: _Game, reason: StopReason, error: str) -> Trajectory:
        """What a game leaves that failed before any agent was heard of: else nobody would hear of the failure."""
        spec = game.spec
        return Trajectory(
            spec.group_id, spec.env_seed, spec.outcome_seed, [], reason, module_id=min(self.engines), error=error
        )


def _end(agent: _Agent, info: Mapping[str, Any], cut_off: bool) -> None:
    """The environment has ended the agent."""
    trajectory = agent.trajectory
    trajectory.success, trajectory.outcome = bool(info.get("success", False)), str(info.get("outcome", ""))
    told = str(info.get("stop_reason", ""))
    if told in (StopReason.GOAL, StopReason.FAILED, StopReason.MAX_TURNS, StopReason.MAX_ACTIONS):
        agent.close(StopReason(told))
    elif cut_off:
        agent.close(StopReason.MAX_TURNS)
    else:
        agent.close(StopReason.GOAL if trajectory.success else StopReason.FAILED)


def _reset(env: MultiAgentEnv, spec: GameSpec) -> tuple[str, str, tuple[str, ...], dict[str, Any], dict[str, Any]]:
    """Starts the game; (system message, key of the instance if it has one, possible agents, prompts, infos)."""
    options: dict[str, Any] = {"split": spec.split, "outcome_seed": spec.outcome_seed}
    scripts = {agent: name for agent, player in spec.seats if (name := script_of(player)) is not None}
    if scripts:
        options["scripts"] = scripts
    prompts, infos = env.reset(seed=spec.env_seed, options=options)
    system, key = str(getattr(env, "system_prompt", "")), str(getattr(env, "instance_key", ""))
    return system, key, tuple(env.possible_agents), prompts, infos
