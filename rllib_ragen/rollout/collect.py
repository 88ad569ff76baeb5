"""Continuous rollouts: each finished reply goes through its environment and comes back as the next request at once."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ragen_envs.seeds import Stream, seed_of
from ragen_envs.text import TextEnv
from rllib_ragen.faults.heartbeat import beat
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.context import Context
from rllib_ragen.rollout.engines.base import Engine, EngineFailure
from rllib_ragen.rollout.env_pool import EnvPool, EnvSlot
from rllib_ragen.rollout.pending_env_calls import PendingEnvCalls
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import Sampled, Sampling, StopReason, Trajectory


def collect(
    specs: Sequence[EpisodeSpec],
    *,
    engine: Engine,
    chat: ChatFormat,
    make_env: Callable[[], TextEnv] | EnvPool[TextEnv],
    sampling: Sampling,
    max_context_tokens: int,
    max_concurrent: int = 128,
    env_timeout_s: float | None = None,
) -> list[Trajectory]:
    """Plays one episode per spec.

    An environment that raises or takes too long ends its own episode as ENV_ERROR, a failed request its own as
    ENGINE_ERROR, a context without room for one more token as CONTEXT_FULL; the others go on.

    On a CPU with the hf engine the result is the same bit for bit in every run, unless environments are slow (more
    than about a third of the time): then only the last bits of log-probs may depend on which replies met in a batch.

    Args:
        specs: the episodes.
        engine: samples; has no request in flight, before and after.
        chat: turns messages into tokens.
        make_env: makes one environment, closed at the end; or a pool, which stays its owner's. Environments are
            reused from episode to episode.
        sampling: of every reply. Its seed is replaced by one per turn, derived from the spec's sampling_seed.
        max_context_tokens: of prompts and replies of one episode.
        max_concurrent: episodes in flight.
        env_timeout_s: longest reset or step; None: no limit, and no threads. A pool must have been made `threaded`
            for a limit to be kept.

    Returns:
        Trajectories in the order of `specs`.

    Raises:
        EngineDead: the engine is gone; nothing of the batch is returned.
    """
    pool = make_env if isinstance(make_env, EnvPool) else EnvPool(make_env, threaded=env_timeout_s is not None)
    collector = _Collector(engine, chat, pool, sampling, max_context_tokens, PendingEnvCalls(env_timeout_s))
    try:
        return collector.run(specs, max_concurrent)
    except BaseException:
        engine.reset()
        raise
    finally:
        collector.abandon_envs()
        if pool is not make_env:
            pool.close()


@dataclass
class _Episode:
    key: int
    spec: EpisodeSpec
    context: Context
    slot: EnvSlot[TextEnv]
    trajectory: Trajectory
    state: str = ""
    """The environment's, for the turn to come."""


@dataclass
class _Collector:
    engine: Engine
    chat: ChatFormat
    pool: EnvPool[TextEnv]
    sampling: Sampling
    max_context_tokens: int
    waits: PendingEnvCalls[_Episode]
    live: dict[int, _Episode] = field(default_factory=dict)
    """Begun and not done; each is in `requested` or in `waits`, or being moved."""
    requested: dict[int, _Episode] = field(default_factory=dict)
    done: dict[int, Trajectory] = field(default_factory=dict)

    def run(self, specs: Sequence[EpisodeSpec], max_concurrent: int) -> list[Trajectory]:
        queue = deque(enumerate(specs))
        beat(0, len(specs))
        while len(self.done) < len(specs):
            while queue and len(self.live) < max_concurrent:
                self._start(*queue.popleft())
            self.waits.settle(bool(self.requested), self._env_failed)
            beat(len(self.done), len(specs))
            if self.requested:
                for key, result in self.engine.poll():
                    self._on_reply(self.requested.pop(key), result)
        return [self.done[key] for key in range(len(specs))]

    def abandon_envs(self) -> None:
        """Closes the environments of unfinished episodes (after an exception)."""
        for episode in self.live.values():
            episode.slot.close()

    def _start(self, key: int, spec: EpisodeSpec) -> None:
        trajectory = Trajectory(spec.group_id, spec.env_seed, spec.outcome_seed)
        episode = _Episode(key, spec, Context(self.chat), self.pool.borrow(), trajectory)
        self.live[key] = episode
        self._ask_env(episode, lambda env: _reset(env, spec), self._on_reset)

    def _ask_env(
        self, episode: _Episode, call: Callable[[TextEnv], Any], resume: Callable[[_Episode, Any], None]
    ) -> None:
        self.waits.ask(episode.key, episode, episode.slot, call, resume)

    def _env_failed(self, episode: _Episode, error: str) -> None:
        self._finish(episode, StopReason.ENV_ERROR, error=error)

    def _on_reset(self, episode: _Episode, answer: tuple[str, str, str, str]) -> None:
        system, message, episode.state, episode.trajectory.instance_key = answer
        episode.context.first(system, message)
        self._request(episode)

    def _request(self, episode: _Episode) -> None:
        room = self.max_context_tokens - len(episode.context.token_ids)
        if room < 1:
            self._finish(episode, StopReason.CONTEXT_FULL)
            return
        seed = turn_seed(episode.spec.sampling_seed, len(episode.trajectory.turns))
        sampling = replace(self.sampling, max_tokens=min(room, self.sampling.max_tokens), seed=seed)
        self.engine.add(episode.key, episode.context.token_ids, sampling)
        self.requested[episode.key] = episode

    def _on_reply(self, episode: _Episode, result: Sampled | EngineFailure) -> None:
        if isinstance(result, EngineFailure):
            self._finish(episode, StopReason.ENGINE_ERROR, error=result.error)
            return
        turn = episode.context.reply(result)
        turn.state = episode.state
        episode.trajectory.turns.append(turn)
        if not np.isfinite(turn.logprobs).all():
            self._finish(episode, StopReason.ENGINE_ERROR, error="the engine gave non-finite log-probs")
            return
        self._ask_env(episode, lambda env: _step(env, turn.reply), self._on_step)

    def _on_step(self, episode: _Episode, answer: tuple[str, float, bool, bool, dict[str, Any]]) -> None:
        message, reward, terminated, truncated, info = answer
        turn = episode.trajectory.turns[-1]
        turn.reward, turn.valid, turn.num_actions = float(reward), bool(info["valid"]), len(info["actions"])
        if terminated or truncated:
            episode.trajectory.success = bool(info["success"])
            self._finish(episode, StopReason(info["stop_reason"]))
            return
        episode.state = info["state"]
        episode.context.next(message)
        self._request(episode)

    def _finish(self, episode: _Episode, reason: StopReason, error: str = "") -> None:
        episode.trajectory.stop_reason, episode.trajectory.error = reason, error
        self.engine.forget(episode.key)
        self.done[episode.key] = episode.trajectory
        del self.live[episode.key]
        if reason is StopReason.ENV_ERROR:
            # Its state is unknown, and it may still be busy.
            episode.slot.close()
        else:
            self.pool.give_back(episode.slot)


def turn_seed(sampling_seed: int, turn: int) -> int:
    """The sampling seed of one turn: 63 bits, independent from turn to turn and from spec to spec."""
    return seed_of(Stream.TURN_SAMPLING, sampling_seed, turn)


def _reset(env: TextEnv, spec: EpisodeSpec) -> tuple[str, str, str, str]:
    """Starts the episode; its (system message, first user message, state, key of the instance if it has one)."""
    message, info = env.reset(seed=spec.env_seed, options={"split": spec.split, "outcome_seed": spec.outcome_seed})
    key = _text(info.get("instance_key", ""), "an instance key")
    return (
        _text(env.system_prompt, "a system prompt"),
        _text(message, "a message"),
        _text(info["state"], "a state"),
        key,
    )


def _step(env: TextEnv, reply: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
    """One step, in the environment's thread. What is no answer is an error of the episode, not of the run."""
    message, reward, terminated, truncated, info = env.step(reply)
    if not math.isfinite(reward):
        raise ValueError(f"the environment gave a reward of {reward}")
    if terminated or truncated:
        StopReason(info["stop_reason"])
    found = {"success": bool(info["success"]), "valid": bool(info["valid"]), "actions": list(info["actions"])}
    found |= {"state": _text(info["state"], "a state"), "stop_reason": info["stop_reason"]}
    return _text(message, "a message"), float(reward), bool(terminated), bool(truncated), found


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the environment gave {what} that is no text but {type(value).__name__}")
    # Half of a surrogate pair is a str that no tokeniser takes.
    value.encode()
    return value
