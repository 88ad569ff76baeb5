"""One episode in the terminal: the rollouts' own loop and session, which also show every message."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict

from ragen_envs.registry import make_text_env
from ragen_envs.reply import SEPARATOR
from ragen_envs.text import TextEnv
from rllib_ragen.config.printable import safe
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.faults.exit_codes import NothingPlayed
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.rollout.conversation import PolicyConversation
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.episode_loop import EpisodeLoop
from rllib_ragen.rollout.session import Steps
from rllib_ragen.rollout.text_session import Opening, Step, TextSession
from rllib_ragen.types import StopReason


class PlayerLeft(Exception):
    """The player has ended the game."""


class ShownSession(TextSession):
    """A session that shows the prompts and the results of replies; the agent shows its replies."""

    def play(self) -> Steps[TextEnv]:
        with suppress(PlayerLeft):
            yield from super().play()

    def open(self, opening: Opening) -> None:
        show("system", opening.system)
        show("user", opening.message)
        super().open(opening)

    def take(self, step: Step) -> bool:
        dropped = f", ignored: {SEPARATOR.join(step.dropped)}" if step.dropped else ""
        ran = f" {SEPARATOR} ".join(step.actions) or "no valid action"
        print(safe(f"· ran: {ran}{dropped}; reward {step.reward:g}"), flush=True)
        show("user" if step.stop_reason is None else "end", step.message)
        return super().take(step)


def play(config: RunConfig, session: ShownSession) -> None:
    """Plays the episode, and prints how it ended.

    Raises:
        NothingPlayed: its environment or its engine failed.
    """
    limits, rollout = asdict(config.text_limits()), config.rollout
    pool = EnvPool(lambda: make_text_env(config.env.name, config.env.task, limits), threaded=True)
    agent = session.conversation
    engines = {agent.policy: agent.sampler.engine} if isinstance(agent, PolicyConversation) else {}
    try:
        with waiting("the episode"):
            EpisodeLoop(engines, pool, max_episodes=1, env_timeout_s=rollout.env_timeout_s).run([session])
    finally:
        pool.close()
    done = session.trajectory
    if done.stop_reason.failed:
        raise NothingPlayed(f"the episode failed: {done.error}")
    if agent.ended and done.stop_reason is StopReason.CONTEXT_FULL:
        print(f"the context is full (rollout.max_context_tokens={rollout.max_context_tokens})")
    elif agent.ended:
        success = "success" if done.success else "no success"
        print(f"{success} ({done.stop_reason}) after {len(done.turns)} turns, return {done.episode_return:g}")
        return
    print(f"stopped before the end, return {done.episode_return:g}")


def show(role: str, text: str) -> None:
    """Prints one message, with control characters escaped."""
    print(f"[{role}]\n{safe(text)}", flush=True)
