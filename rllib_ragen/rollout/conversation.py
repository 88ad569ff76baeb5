"""One agent's part of an episode: its prompts, replies and rewards, and the trajectory that they make."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ragen_envs.seeds import Stream, seed_of
from rllib_ragen.rollout.context import Context, Tokenise
from rllib_ragen.rollout.engines.base import Engine
from rllib_ragen.types import IntArray, Sampled, Sampling, StopReason, Trajectory, Turn

if TYPE_CHECKING:
    from rllib_ragen.models.chat_format import ChatFormat
    from rllib_ragen.rollout.connectors import TurnConnectors

_NO_TOKENS: IntArray = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Heard:
    """A prompt that waits for its reply."""

    token_ids: IntArray = field(default_factory=lambda: _NO_TOKENS)
    """Tokens that the context gained by it; empty: there was no room."""
    prompt: str = ""
    state: str = ""


@dataclass(frozen=True)
class Sampler:
    """The engine, chat format and settings with which a policy's replies are sampled."""

    engine: Engine
    chat: ChatFormat
    sampling: Sampling
    """Settings of every reply. The seed is replaced by one per conversation and turn."""
    max_context_tokens: int
    """Limit on the tokens of prompts and replies of one conversation."""
    connectors: TurnConnectors | None = None
    """What the user's connectors make of prompts and replies; None: nothing."""


class SamplingSettings(Protocol):
    """The keys of `rollout` that say how replies are sampled."""

    max_reply_tokens: int
    temperature: float
    top_p: float
    top_k: int


def reply_sampling(
    settings: SamplingSettings, chat: ChatFormat, *, greedy: bool, temperature: float | None = None
) -> Sampling:
    """Says how the replies of a run are sampled; each gets a seed of its own.

    Args:
        settings: the run's.
        chat: knows where a reply ends.
        greedy: the likeliest token always.
        temperature: in place of the settings'; None: theirs.
    """
    return Sampling(
        max_tokens=settings.max_reply_tokens,
        stop_token_ids=chat.stop_token_ids,
        temperature=0.0 if greedy else temperature or settings.temperature,
        top_p=1.0 if greedy else settings.top_p,
        top_k=0 if greedy else settings.top_k,
    )


class Conversation:
    """An agent that replies with text only: a person, a script."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self.ended = False
        self._state = self._message = ""
        self._unearned = 0.0
        """Rewards before its first reply; 0 after it."""

    @property
    def reply(self) -> str:
        """The last reply."""
        return self.trajectory.turns[-1].reply

    def act(self) -> str:
        """Returns what its environment hears of what it said last; called once a turn."""
        return self.reply

    @property
    def heard(self) -> Heard:
        """The newest prompt, if it waits for a reply that will be sampled."""
        return Heard()

    def hear(self, message: str, state: str, system: str = "") -> None:
        """Receives a prompt.

        Args:
            message: the user message of the turn to come.
            state: the environment's state, for the turn's record.
            system: the system message, used only in the first prompt.
        """
        self._message, self._state = message, state

    def answer(self) -> Generator[Ask, None, None]:
        """Answers the newest prompt, as a part of `Session.play`; `reply` is the answer then."""
        raise NotImplementedError

    def say(self, reply: str) -> None:
        """Adds a turn that was not sampled."""
        turn = Turn(_NO_TOKENS, _NO_TOKENS, np.zeros(0, np.float32), 0.0, 0, prompt=self._message, reply=reply)
        self._add(turn)

    def pay(self, reward: float) -> None:
        """Adds a reward to the agent's last turn, or to its first one if it has not replied yet."""
        if self.trajectory.turns:
            self.trajectory.turns[-1].reward += reward
        else:
            self._unearned += reward

    def close(self, reason: StopReason, error: str = "") -> None:
        """Ends the conversation. Rewards without any reply get one turn without tokens, so that the return is right."""
        self.ended = True
        self.trajectory.stop_reason, self.trajectory.error = reason, error
        if self._unearned:
            self.say("")

    def _add(self, turn: Turn) -> None:
        turn.state, turn.reward, self._unearned = self._state, self._unearned, 0.0
        self.trajectory.turns.append(turn)


class PolicyConversation(Conversation):
    """An agent whose replies are sampled from a policy."""

    def __init__(
        self,
        trajectory: Trajectory,
        sampler: Sampler,
        seeds: Sequence[int],
        *,
        in_game: bool = False,
        prefix: str = "",
    ) -> None:
        """
        Args:
            trajectory: empty; `module_id` names the policy.
            sampler: the policy's.
            seeds: the sampling seed of turn k is derived from these and k.
            in_game: whether the episode has several agents.
            prefix: of errors then.
        """
        super().__init__(trajectory)
        self.sampler = sampler
        self.prefix = prefix
        self._seeds = tuple(seeds)
        self._connected = sampler.connectors.open(trajectory, in_game) if sampler.connectors else None
        self._context = Context(sampler.chat, self._rewritten if self._connected else None)

    @property
    def policy(self) -> str:
        """Id of the policy."""
        return self.trajectory.module_id

    @property
    def token_ids(self) -> list[int]:
        """All tokens so far: the engine's next prompt."""
        return self._context.token_ids

    @property
    def heard(self) -> Heard:
        gained = self._context.gained
        return Heard(np.asarray(gained, np.int32), self._context.message, self._state) if gained else Heard()

    @property
    def full(self) -> bool:
        """Whether there is no room for one more token."""
        return len(self._context.token_ids) >= self.sampler.max_context_tokens

    def act(self) -> str:
        return self._connected.act(self.reply) if self._connected else self.reply

    def hear(self, message: str, state: str, system: str = "") -> None:
        super().hear(message, state)
        if not self._context.token_ids:
            self._context.first(system, message)
        elif not self.full:
            self._context.next(message)

    def answer(self) -> Generator[Ask, None, None]:
        yield Ask((self,))

    def next_sampling(self) -> Sampling:
        """Returns the settings of the next reply: its own seed, and a length that fits the context."""
        sampler = self.sampler
        room = sampler.max_context_tokens - len(self._context.token_ids)
        seed = seed_of(Stream.TURN_SAMPLING, *self._seeds, len(self.trajectory.turns))
        return replace(sampler.sampling, max_tokens=min(room, sampler.sampling.max_tokens), seed=seed)

    def take(self, sampled: Sampled) -> bool:
        """Adds the reply → whether its log-probs are finite."""
        turn = self._context.reply(sampled)
        self._add(turn)
        return bool(np.isfinite(turn.logprobs).all())

    def _rewritten(self, message: str, token_ids: list[int], tokenise: Tokenise) -> tuple[str, list[int]]:
        """Says what the user's connectors make of a user message."""
        assert self._connected is not None
        last = self.trajectory.turns[-1] if self.trajectory.turns else None
        return self._connected.hear(message, self._state, last, token_ids, tokenise)


@dataclass(frozen=True)
class Ask:
    """The replies that an episode waits for."""

    conversations: Sequence[PolicyConversation]
    mute_when_full: bool = False
    """Whether a conversation without room for another token gives no reply; else it ends the episode as
    CONTEXT_FULL.
    """
