"""The token history of one episode: append-only, so every prompt is a prefix of the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rllib_ragen.types import Sampled, Turn

if TYPE_CHECKING:
    from rllib_ragen.models.chat_format import ChatFormat


class Context:
    """The tokens of one episode, as the engine sees them.

    Call `first` once, then `reply` and `next` in turn.
    """

    def __init__(self, chat: ChatFormat) -> None:
        self._chat = chat
        self.token_ids: list[int] = []
        """Everything so far: the engine's next prompt."""
        self._delta: list[int] = []
        self._message = ""
        self._last: Sampled | None = None

    def first(self, system: str, user: str) -> None:
        """Sets the first prompt."""
        self._extend(user, self._chat.first_prompt(system, user))

    def next(self, user: str) -> None:
        """Adds the tokens between the last reply and the model's next token."""
        assert self._last is not None, "no reply yet"
        last_id = self._last.token_ids[-1]
        self._extend(user, self._chat.next_prompt(user, self._last.finished, last_id if self._last.finished else None))

    def reply(self, sampled: Sampled) -> Turn:
        """Adds a reply, exactly the sampled ids → its turn (without reward)."""
        self.token_ids = self.token_ids + sampled.token_ids
        self._last = sampled
        return Turn(
            prompt_ids=np.asarray(self._delta, np.int32),
            reply_ids=np.asarray(sampled.token_ids, np.int32),
            logprobs=np.asarray(sampled.logprobs, np.float32),
            reward=0.0,
            policy_version=sampled.policy_version,
            cached_tokens=sampled.cached_tokens,
            prompt=self._message,
            reply=self._chat.reply_text(sampled.token_ids),
        )

    def _extend(self, user: str, delta: list[int]) -> None:
        self._message, self._delta = user, delta
        self.token_ids = self.token_ids + delta
