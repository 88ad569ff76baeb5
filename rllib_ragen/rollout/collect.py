"""Plays episodes of one agent: specs in, trajectories out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ragen_envs.text import TextEnv
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.connectors import TurnConnectors
from rllib_ragen.rollout.conversation import PolicyConversation, Sampler
from rllib_ragen.rollout.engines.base import Engine
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.episode_loop import EpisodeLoop, Watcher
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.rollout.text_session import TextSession
from rllib_ragen.types import Sampling, Trajectory


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
    connectors: TurnConnectors | None = None,
    watcher: Watcher[TextEnv] | None = None,
    own: Mapping[str, tuple[ChatFormat, Sampling]] | None = None,
) -> list[Trajectory]:
    """Plays one episode per spec.

    An environment that raises, takes too long or gives an invalid answer ends its own episode as ENV_ERROR, a failed
    request as ENGINE_ERROR, a context without room for one more token as CONTEXT_FULL; the others go on.

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
        connectors: the user's, for prompts and replies.
        watcher: is told what becomes of each episode; None: nobody.
        own: by an environment's label, what is used there in place of `chat` and `sampling`.

    Returns:
        Trajectories in the order of `specs`.

    Raises:
        EngineDead: the engine is gone; nothing of the batch is returned.
        WholeBatchError: a connector fails.
    """
    usual = Sampler(engine, chat, sampling, max_context_tokens, connectors)
    samplers = {label: Sampler(engine, *how, max_context_tokens, connectors) for label, how in (own or {}).items()}
    sessions = [_session(spec, samplers.get(spec.env, usual)) for spec in specs]
    pool = make_env if isinstance(make_env, EnvPool) else EnvPool(make_env, threaded=env_timeout_s is not None)
    engines = {session.trajectory.module_id: engine for session in sessions}
    try:
        EpisodeLoop(engines, pool, max_episodes=max_concurrent, env_timeout_s=env_timeout_s, watcher=watcher).run(
            sessions
        )
    finally:
        if pool is not make_env:
            pool.close()
    return [session.trajectory for session in sessions]


def _session(spec: EpisodeSpec, sampler: Sampler) -> TextSession:
    trajectory = Trajectory(spec.group_id, spec.env_seed, spec.outcome_seed, env=spec.env, level=spec.level)
    return TextSession(spec, PolicyConversation(trajectory, sampler, (spec.sampling_seed,)))
