"""Plays episodes of one agent: specs in, trajectories out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragen_envs.text import TextEnv
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.conversation import PolicyConversation, Sampler
from rllib_ragen.rollout.engines.base import Engine
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.episode_loop import EpisodeLoop
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
) -> list[Trajectory]:
    """Plays one episode per spec.

    An environment that raises, takes too long or gives an invalid answer ends its own episode as ENV_ERROR, a failed
    request as ENGINE_ERROR, a context without room for one more token as CONTEXT_FULL; the others go on.

    Args:
        specs: the episodes.
        engine: the engine, with no request in flight, before and after.
        chat: the chat format.
        make_env: makes one environment, closed at the end; or a pool, which its owner closes. Environments are reused
        for several episodes.
        sampling: settings of every reply. Its seed is replaced by one per turn, derived from the spec's sampling_seed.
        max_context_tokens: most tokens of prompts and replies of one episode.
        max_concurrent: most episodes in flight.
        env_timeout_s: longest reset or step; None: no limit, and no threads. A limit needs a pool that is `threaded`.

    Returns:
        Trajectories in the order of `specs`.

    Raises:
        EngineDead: the engine is gone; nothing of the batch is returned.
    """
    sampler = Sampler(engine, chat, sampling, max_context_tokens)
    sessions = [_session(spec, sampler) for spec in specs]
    pool = make_env if isinstance(make_env, EnvPool) else EnvPool(make_env, threaded=env_timeout_s is not None)
    engines = {session.trajectory.module_id: engine for session in sessions}
    try:
        EpisodeLoop(engines, pool, max_episodes=max_concurrent, env_timeout_s=env_timeout_s).run(sessions)
    finally:
        if pool is not make_env:
            pool.close()
    return [session.trajectory for session in sessions]


def _session(spec: EpisodeSpec, sampler: Sampler) -> TextSession:
    trajectory = Trajectory(spec.group_id, spec.env_seed, spec.outcome_seed)
    return TextSession(spec, PolicyConversation(trajectory, sampler, (spec.sampling_seed,)))
