"""The token history of one episode: append-only, so every prompt is a prefix of the next one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rllib_ragen.types import Sampled, Turn

if TYPE_CHECKING:
    from rllib_ragen.models.chat_format import ChatFormat


Tokenise: TypeAlias = Callable[[str], list[int]]
"""Makes a user message the token ids that the context gains by it."""
Rewrite: TypeAlias = Callable[[str, list[int], Tokenise], tuple[str, list[int]]]
"""(user message, context so far, its tokeniser) → the message and the token ids that take its place."""


class Context:
    """The tokens of one episode, as the engine sees them.

    Call `first` once, then `reply` and `next` in turn.
    """

    def __init__(self, chat: ChatFormat, rewrite: Rewrite | None = None) -> None:
        """
        Args:
            chat: turns messages into tokens.
            rewrite: has a say in every user message; None: they are tokenised as they are.
        """
        self._chat, self._rewrite = chat, rewrite
        self.token_ids: list[int] = []
        """Everything so far: the engine's next prompt."""
        self.gained: list[int] = []
        """Tokens since the last reply: the prompt that waits for one."""
        self.message = ""
        """The newest user message, as it was tokenised."""
        self._last: Sampled | None = None

    def first(self, system: str, user: str) -> None:
        """Starts with the first prompt."""
        self._extend(user, partial(self._chat.first_prompt, system))

    def next(self, user: str) -> None:
        """Adds the tokens between the last reply and the model's next token."""
        assert self._last is not None, "no reply yet"
        finished, last_id = self._last.finished, self._last.token_ids[-1]
        stop_id = last_id if finished else None
        self._extend(user, partial(self._chat.next_prompt, finished=finished, stop_id=stop_id))

    def reply(self, sampled: Sampled) -> Turn:
        """Adds a reply, exactly the sampled ids → its turn (without reward)."""
        self.token_ids = self.token_ids + sampled.token_ids
        self._last, gained, self.gained = sampled, self.gained, []
        return Turn(
            prompt_ids=np.asarray(gained, np.int32),
            reply_ids=np.asarray(sampled.token_ids, np.int32),
            logprobs=np.asarray(sampled.logprobs, np.float32),
            reward=0.0,
            policy_version=sampled.policy_version,
            cached_tokens=sampled.cached_tokens,
            prompt=self.message,
            reply=self._chat.reply_text(sampled.token_ids),
        )

    def _extend(self, user: str, tokenise: Tokenise) -> None:
        if self._rewrite is None:
            self.message, self.gained = user, tokenise(user)
        else:
            self.message, self.gained = self._rewrite(user, self.token_ids, tokenise)
        self.token_ids = self.token_ids + self.gained
