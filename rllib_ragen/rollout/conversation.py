"""One agent's part of an episode: what it is told, says and is paid, and the trajectory that this makes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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
class Sampler:
    """What a policy's replies are sampled with."""

    engine: Engine
    chat: ChatFormat
    sampling: Sampling
    """Sampling of every reply. Its seed is replaced by one per conversation and turn."""
    max_context_tokens: int
    """Limit on the tokens of prompts and replies of one conversation."""
    connectors: TurnConnectors | None = None
    """What the user's connectors make of prompts and replies; None: nothing."""


class Conversation:
    """An agent that speaks in words alone: a person, a script."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self.ended = False
        self._state = self._message = ""
        self._unearned = 0.0
        """Rewards before its first reply."""

    @property
    def reply(self) -> str:
        """What it said last."""
        return self.trajectory.turns[-1].reply

    def act(self) -> str:
        """Returns what its environment hears of what it said last; called once a turn."""
        return self.reply

    def hear(self, message: str, state: str, system: str = "") -> None:
        """Takes a prompt.

        Args:
            message: the user message of the turn to come.
            state: the environment's, for the turn's record.
            system: the system message; counts in the first prompt only.
        """
        self._message, self._state = message, state

    def answer(self) -> Generator[Ask, None, None]:
        """Answers the newest prompt, as a part of `Session.play`; `reply` is what was said then."""
        raise NotImplementedError

    def say(self, reply: str) -> None:
        """Adds a turn that nobody sampled."""
        turn = Turn(_NO_TOKENS, _NO_TOKENS, np.zeros(0, np.float32), 0.0, 0, prompt=self._message, reply=reply)
        self._add(turn)

    def pay(self, reward: float) -> None:
        """Adds a reward to what the agent did last; if it has done nothing yet, to what it does first."""
        if self.trajectory.turns:
            self.trajectory.turns[-1].reward += reward
        else:
            self._unearned += reward

    def close(self, reason: StopReason, error: str = "") -> None:
        """Ends it. If it was paid and never replied it gets one turn without tokens, so that its return is right."""
        self.ended = True
        self.trajectory.stop_reason, self.trajectory.error = reason, error
        if self._unearned and not self.trajectory.turns:
            self.say("")

    def _add(self, turn: Turn) -> None:
        turn.state, turn.reward, self._unearned = self._state, self._unearned, 0.0
        self.trajectory.turns.append(turn)


class PolicyConversation(Conversation):
    """An agent whose replies a policy samples, token for token."""

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
        """The id of the policy that speaks."""
        return self.trajectory.module_id

    @property
    def token_ids(self) -> list[int]:
        """Everything so far: the engine's next prompt."""
        return self._context.token_ids

    @property
    def full(self) -> bool:
        """Whether there is no room for one more token; there never will be again."""
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
        """Says how the next reply is to be sampled: within the room there is, from a seed of its own."""
        sampler = self.sampler
        room = sampler.max_context_tokens - len(self._context.token_ids)
        seed = seed_of(Stream.TURN_SAMPLING, *self._seeds, len(self.trajectory.turns))
        return replace(sampler.sampling, max_tokens=min(room, sampler.sampling.max_tokens), seed=seed)

    def take(self, sampled: Sampled) -> bool:
        """Adds the reply; whether its log-probs are finite."""
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
    """Replies that an episode waits for, all together."""

    conversations: Sequence[PolicyConversation]
    mute_when_full: bool = False
    """One without room for another token says nothing. Else that ends the episode as CONTEXT_FULL."""
