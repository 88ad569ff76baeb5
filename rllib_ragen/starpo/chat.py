"""A policy as something to talk to: messages in, the text of one sampled reply out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragen_envs.seeds import Stream, seed_of
from rllib_ragen.config.schema import MAX_SEED
from rllib_ragen.rollout.conversation import reply_sampling
from rllib_ragen.rollout.engines.base import EngineFailure
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.rollouts import Rollouts


class Chat:
    """Samples replies from the runners' engines, whose weights are those of the last sync."""

    def __init__(self, config: StarPOConfig, rollouts: Rollouts) -> None:
        self._config, self._rollouts = config, rollouts
        self._chat = config.chat_format()

    def reply(self, messages: Sequence[Mapping[str, str]], policy: str, *, greedy: bool, seed: int) -> str:
        """Returns the reply to a conversation; `StarPO.chat` says the rest.

        Raises:
            ValueError: no such policy or seed, no conversation, or none that leaves room for a reply.
        """
        known = self._config.module_ids()
        if policy not in known:
            raise ValueError(f"policy: unknown {policy!r}; allowed: {', '.join(known)}")
        if not 0 <= seed <= MAX_SEED:
            raise ValueError(f"seed: {seed} is out of range; allowed: 0 to {MAX_SEED}")
        prompt, room = self._chat.conversation(messages), self._config.max_context_tokens
        if len(prompt) >= room:
            raise ValueError(f"messages: they are {len(prompt)} tokens; allowed: below max_context_tokens={room}")
        sampling = reply_sampling(self._config, self._chat, greedy=greedy)
        asked = replace(
            sampling,
            max_tokens=min(sampling.max_tokens, room - len(prompt)),
            seed=seed_of(Stream.CHAT_SAMPLING, seed),
        )
        answer = self._rollouts.reply(prompt, policy, asked)
        if isinstance(answer, EngineFailure):
            raise ValueError(f"messages: {answer.error}")
        return self._chat.reply_text(answer.token_ids)
