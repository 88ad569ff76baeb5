"""An episode of one agent in a TextEnv."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from ragen_envs.text import TextEnv
from rllib_ragen.rollout.conversation import Conversation
from rllib_ragen.rollout.env_answers import end_of, reward_of, text_of
from rllib_ragen.rollout.session import Steps, on_env
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import StopReason, Trajectory


@dataclass(frozen=True)
class Opening:
    """The environment's answer to a reset."""

    system: str
    message: str
    state: str
    instance_key: str = ""
    """Canonical text of the task instance; empty if the environment has none."""


@dataclass(frozen=True)
class Step:
    """The environment's answer to a reply."""

    message: str
    state: str
    reward: float
    success: bool
    valid: bool
    actions: list[str]
    """Names of the actions that were run."""
    dropped: list[str]
    """Parts of the reply that were not run."""
    stop_reason: StopReason | None
    """Reason why the episode ended; None: it goes on."""


class TextSession:
    """A session of one EpisodeSpec; `trajectory` is its result."""

    def __init__(self, spec: EpisodeSpec, conversation: Conversation) -> None:
        """
        Args:
            spec: the episode.
            conversation: the agent, with a trajectory that is still empty.
        """
        self.spec = spec
        self.conversation = conversation

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory so far."""
        return self.conversation.trajectory

    def play(self) -> Steps[TextEnv]:
        opening = yield from on_env(partial(read_opening, self.spec))
        self.open(opening)
        ended = False
        while not ended:
            yield from self.conversation.answer()
            step = yield from on_env(partial(read_step, self.conversation.act()))
            ended = self.take(step)

    def stop(self, reason: StopReason, error: str = "") -> None:
        self.conversation.close(reason, error)

    def open(self, opening: Opening) -> None:
        """Gives the first prompt to the agent."""
        self.trajectory.instance_key = opening.instance_key
        self.conversation.hear(opening.message, opening.state, opening.system)

    def take(self, step: Step) -> bool:
        """Gives the result of its reply to the agent → whether that is the end."""
        turn = self.trajectory.turns[-1]
        self.conversation.pay(step.reward)
        turn.valid, turn.num_actions = step.valid, len(step.actions)
        if step.stop_reason is None:
            self.conversation.hear(step.message, step.state)
            return False
        self.trajectory.success = step.success
        self.conversation.close(step.stop_reason)
        return True


def read_opening(spec: EpisodeSpec, env: TextEnv) -> Opening:
    """Starts the episode. Raises whatever the environment does, and BadAnswer for what is no answer."""
    message, info = env.reset(seed=spec.env_seed, options=spec.options)
    return Opening(
        system=text_of(env.system_prompt, "a system prompt"),
        message=text_of(message, "a message"),
        state=text_of(info["state"], "a state"),
        instance_key=text_of(info.get("instance_key", ""), "an instance key"),
    )


def read_step(reply: str, env: TextEnv) -> Step:
    """Makes a step with the reply. Raises as `read_opening` does."""
    message, reward, terminated, truncated, info = env.step(reply)
    return Step(
        message=text_of(message, "a message"),
        state=text_of(info["state"], "a state"),
        reward=reward_of(reward),
        success=bool(info["success"]),
        valid=bool(info["valid"]),
        actions=_texts(info["actions"]),
        dropped=_texts(info.get("dropped", ())),
        stop_reason=end_of(info["stop_reason"]) if terminated or truncated else None,
    )


def _texts(values: Any) -> list[str]:
    return [text_of(str(value), "an action") for value in values]
