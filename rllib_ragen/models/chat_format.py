"""Chat templates as token deltas: the start of a context, and its growth after each reply.

Earlier turns are never rendered again. What follows a reply is found by rendering a stand-in reply once, cutting behind
it and tokenising the rest on its own, so that no template can rewrite sampled tokens (drop a `<think>`, merge messages)
and no token can merge over the seam between reply and prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from rllib_ragen.models.chat_template import NOW, rendering_variables, template_text
from rllib_ragen.models.folder_files import read_object, token_ids
from rllib_ragen.models.load import first_line, load_tokenizer

_MARK = "RAGENSTANDIN"
THINK, THOUGHT_END = "<think>", "</think>"
_ROLES = ("system", "user", "assistant")
_CACHE = 4096
"""Size of the cache of tokenised texts: chosen freely, above the different prompts of a batch."""


class ChatFormat:
    """A tokenizer's chat template, for token-exact multi-turn rollouts.

    `stop_token_ids` end a reply: the template's end-of-turn token, the tokenizer's and the generation config's EOS.
    `reply_prefix` is the part of the reply that the prompt already holds; it is never trained, and `reply_text` adds
    it. `opening` is the template's own end of a prompt, without trailing white space.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        reply_prefix: str = "",
        extra_stop_ids: Sequence[int] = (),
        template_kwargs: Mapping[str, object] | None = None,
    ) -> None:
        """Finds out the template's structure from a stand-in conversation.

        Args:
            tokenizer: any transformers tokenizer with a chat template.
            reply_prefix: text that every reply starts with, such as `<think>`. If the template's own prompt ends with
            it, it is not added again.
            extra_stop_ids: further stop tokens, such as a generation config's EOS list.
            template_kwargs: variables of the template (`enable_thinking`, `date_string` …).

        Raises:
            ValueError: no chat template, one that cannot hold a user–assistant–user conversation, or a prefix that
                ends the reply.
        """
        template_text(tokenizer)
        self.tokenizer = tokenizer
        self.template_kwargs = dict(template_kwargs or {})
        self._given = (reply_prefix, tuple(extra_stop_ids))
        self._kwargs = rendering_variables(self.template_kwargs)
        self._special = _special_pattern(tokenizer)
        self._takes_system = self._system_is_kept()
        self.opening = self.text([{"role": "user", "content": _MARK}]).rstrip()
        built_in = THINK if self.opening.endswith(THINK) else ""
        self._prompt_suffix = reply_prefix.removeprefix(built_in)
        self.reply_prefix = built_in + self._prompt_suffix
        self.end_of_turn_id = self._find_end_of_turn()
        stops = [self.end_of_turn_id, tokenizer.eos_token_id, *extra_stop_ids]
        self.stop_token_ids = tuple(dict.fromkeys(token for token in stops if token is not None))
        if not self.stop_token_ids:
            raise ValueError("neither the chat template nor the tokenizer names an end-of-turn token")
        if set(self._encode(self._prompt_suffix)) & set(self.stop_token_ids):
            raise ValueError(f"env.reply_prefix={reply_prefix!r} holds a token that ends the reply")
        self._first = lru_cache(_CACHE)(self._encode_first)
        self._next = lru_cache(_CACHE)(self._encode_next)

    @classmethod
    def from_folder(
        cls, path: str | Path, *, reply_prefix: str = "", template_kwargs: Mapping[str, object] | None = None
    ) -> ChatFormat:
        """Returns the format of a model folder, with the stop tokens of its generation_config.json.

        Raises:
            ValueError: no such folder, no tokenizer in it, or no usable chat template.
        """
        folder = Path(path)
        if not folder.is_dir():
            raise ValueError(f"model folder {str(path)!r} does not exist")
        tokenizer = load_tokenizer(folder)
        stops = _generation_stops(folder / "generation_config.json")
        return cls(tokenizer, reply_prefix=reply_prefix, extra_stop_ids=stops, template_kwargs=template_kwargs)

    def with_clock(self, clock: Callable[[str], str]) -> ChatFormat:
        """Returns the same format on another day: `clock` replaces the template's `strftime_now`."""
        prefix, stops = self._given
        other = ChatFormat(
            self.tokenizer, reply_prefix=prefix, extra_stop_ids=stops, template_kwargs=self.template_kwargs
        )
        other._kwargs[NOW] = clock
        return other

    def text(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Renders a conversation, up to the model's next token.

        Raises:
            ValueError: the template refuses it; one sentence.
        """
        return self._render([dict(message) for message in messages])

    def first_prompt(self, system: str, user: str) -> list[int]:
        """Returns the token ids of the whole first prompt. Without a system role in the template, `system` is put
        before the user message.
        """
        return list(self._first(system, user))

    def conversation(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Returns token ids of a conversation up to the model's next token; of one message, or of a system message and
        one, those of `first_prompt`.

        Earlier replies are what the template makes of their words, so this is not the token history of an episode.

        Args:
            messages: {"role": "system", "user" or "assistant", "content": text} each; a system message comes first.

        Raises:
            ValueError: something else, or the template refuses it; one sentence.
        """
        for message in messages:
            if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
                raise ValueError(f"messages: each must have 'role' and 'content', and no more; not {message!r}")
            if message["role"] not in _ROLES or not isinstance(message["content"], str):
                raise ValueError(f"messages: 'role' must be one of {', '.join(_ROLES)}, and 'content' a text")
        told = [{**message, "content": self._disarm(message["content"])} for message in messages]
        system = told.pop(0)["content"] if told and told[0]["role"] == "system" else ""
        if not told or told[-1]["role"] != "user" or any(message["role"] == "system" for message in told):
            raise ValueError("messages: a user's must be the last, and a system message may only be the first")
        return list(self._encode(self._render(self._with_system(system, told)) + self._prompt_suffix))

    def next_prompt(self, user: str, finished: bool, stop_id: int | None = None) -> list[int]:
        """Returns the token ids that follow a reply, up to the model's next token.

        Args:
            user: the next user message.
            finished: whether the reply ended with a stop token, which then is in the context already. Otherwise the
            result includes the end of turn.
            stop_id: the stop token that was sampled; default: the template's own.
        """
        has_end = finished and stop_id in (None, self.end_of_turn_id)
        return list(self._next(user)[1 if has_end else 0])

    def reply_text(self, token_ids: Sequence[int]) -> str:
        """Returns a reply for the environment and for people: no stop token at its end, the reply prefix back in
        front.
        """
        return self.reply_prefix + self.sampled_text(token_ids)

    def sampled_text(self, token_ids: Sequence[int]) -> str:
        """Returns what was sampled of a reply: `reply_text` without the prefix."""
        ids = list(token_ids)
        if ids and ids[-1] in self.stop_token_ids:
            ids.pop()
        text = self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text

    def _encode_first(self, system: str, user: str) -> tuple[int, ...]:
        messages = [{"role": "user", "content": self._disarm(user)}]
        return self._encode(self._render(self._with_system(self._disarm(system), messages)) + self._prompt_suffix)

    def _with_system(self, system: str, messages: list[dict[str, str]]) -> list[dict[str, str]]:
        """Returns the messages behind a system message; without such a role it goes atop the first of them."""
        if not system:
            return messages
        if self._takes_system:
            return [{"role": "system", "content": system}, *messages]
        first = messages[0]
        return [{**first, "content": f"{system}\n\n{first['content']}"}, *messages[1:]]

    def _encode_next(self, user: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns (delta with the end of turn, delta after it). Without an end-of-turn token both are the same."""
        ids = self._encode(self._tail(self._disarm(user)) + self._prompt_suffix)
        end = ids.index(self.end_of_turn_id) + 1 if self.end_of_turn_id is not None else 0
        return ids, ids[end:]

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _render(self, messages: list[dict[str, str]]) -> str:
        try:
            text = self.tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, **self._kwargs
            )
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            # A template is a program, and may fail as one.
            raise ValueError(f"the chat template refuses the conversation: {first_line(error)}") from None
        assert isinstance(text, str)
        return text

    def _tail(self, user: str) -> str:
        """Returns the template's text after a reply that is followed by the message `user`."""
        roles = ("user", "assistant", "user")
        text = self._render([{"role": r, "content": c} for r, c in zip(roles, ("Hello", _MARK, user), strict=True)])
        if text.count(_MARK) != 1:
            raise ValueError("the chat template does not show an assistant's message exactly once")
        return text.split(_MARK)[1]

    def _system_is_kept(self) -> bool:
        """Returns whether the template has a system role: some refuse it, some drop it silently."""
        messages = [{"role": "system", "content": _MARK}, {"role": "user", "content": "Hello"}]
        try:
            return _MARK in self._render(messages)
        except ValueError:
            return False

    def _find_end_of_turn(self) -> int | None:
        """Returns the special token right after a reply, or None if the template ends turns with plain text."""
        added = self.tokenizer.added_tokens_decoder
        for token in self._encode(self._tail("Hello")):
            if token in added:
                return token
            if str(self.tokenizer.decode([token])).strip():
                return None
        return None

    def _disarm(self, text: str) -> str:
        """Breaks special tokens in what an environment or another agent says, so that none of it can end a turn."""
        return self._special.sub(r"\g<0> ", text) if self._special else text


def _special_pattern(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str] | None:
    """Matches the first characters of control tokens. One-character ones cannot be broken and are left alone."""
    texts = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    alternatives = "|".join(re.escape(text) for text in texts if len(text) > 1)
    # Looks ahead: a token may hold another one, or begin inside it.
    return re.compile(f"(?={alternatives}).", re.DOTALL) if alternatives else None


def _generation_stops(path: Path) -> list[int]:
    """Returns the EOS ids of a generation config; empty if there is none."""
    if not path.is_file():
        return []
    eos = token_ids(read_object(path).get("eos_token_id"))
    if eos is None:
        raise ValueError(f"eos_token_id in {path} must be a token id or a list of them")
    return eos
