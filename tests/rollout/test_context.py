"""The token history of one episode, step by step: every prompt begins with the one before and the sampled reply."""

from __future__ import annotations

import numpy as np
import pytest

from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.context import Context
from rllib_ragen.types import Sampled


def reply(chat: ChatFormat, text: str, *, finished: bool = True, stop: int | None = None) -> Sampled:
    """Of version 3, with 7 tokens from a cache; log-probs −1, −2, …"""
    ids = chat.tokenizer.encode(text, add_special_tokens=False)
    ids += [chat.end_of_turn_id if stop is None else stop] if finished else []
    return Sampled(ids, [-float(i + 1) for i in range(len(ids))], finished, policy_version=3, cached_tokens=7)


def test_it_begins_with_the_first_prompt(chat: ChatFormat) -> None:
    context = Context(chat)
    assert context.token_ids == []
    context.first("Rules", "Where?")
    assert context.token_ids == chat.first_prompt("Rules", "Where?")


def test_a_turn_is_what_the_context_gained_and_what_was_sampled(chat: ChatFormat) -> None:
    context, sampled = Context(chat), reply(chat, "<answer>Up</answer>")
    context.first("Rules", "Where?")
    turn = context.reply(sampled)
    assert turn.prompt_ids.tolist() == chat.first_prompt("Rules", "Where?")
    assert turn.reply_ids.tolist() == sampled.token_ids and turn.logprobs.tolist() == sampled.logprobs
    assert turn.prompt_ids.dtype == turn.reply_ids.dtype == np.int32 and turn.logprobs.dtype == np.float32
    assert (turn.prompt, turn.reply, turn.reward) == ("Where?", "<answer>Up</answer>", 0.0)
    assert (turn.policy_version, turn.cached_tokens) == (3, 7)
    assert context.token_ids == [*turn.prompt_ids, *turn.reply_ids]


def test_the_next_turn_has_the_next_message_and_nothing_of_the_first(chat: ChatFormat) -> None:
    context = Context(chat)
    context.first("Rules", "Where?")
    first = context.reply(reply(chat, "Up"))
    context.next("And now?")
    gained = chat.next_prompt("And now?", True)
    assert context.token_ids == [*first.prompt_ids, *first.reply_ids, *gained]
    second = context.reply(reply(chat, "Down"))
    assert second.prompt_ids.tolist() == gained and second.prompt == "And now?"
    assert context.token_ids == [*first.prompt_ids, *first.reply_ids, *second.prompt_ids, *second.reply_ids]


@pytest.mark.parametrize("how", ["cut off", "another stop token"])
def test_a_reply_without_the_templates_end_of_turn_is_closed_by_the_next_prompt(chat: ChatFormat, how: str) -> None:
    context = Context(chat)
    context.first("", "Where?")
    other = next(token for token in range(20) if token != chat.end_of_turn_id)
    context.reply(reply(chat, "Up", finished=False) if how == "cut off" else reply(chat, "Up", stop=other))
    before = list(context.token_ids)
    context.next("And now?")
    assert context.token_ids == before + chat.next_prompt("And now?", False)
    assert context.token_ids[len(before)] == chat.end_of_turn_id


def test_a_cut_off_reply_that_ends_with_the_end_of_turn_by_chance_is_not_taken_for_finished(chat: ChatFormat) -> None:
    context = Context(chat)
    context.first("", "Where?")
    assert chat.end_of_turn_id is not None
    context.reply(Sampled([5, chat.end_of_turn_id], [-1.0, -1.0], finished=False, policy_version=0))
    before = list(context.token_ids)
    context.next("And now?")
    assert context.token_ids == before + chat.next_prompt("And now?", False)


def test_a_prompt_that_was_given_away_does_not_grow(chat: ChatFormat) -> None:
    """The engine holds it while the reply is sampled."""
    context, sampled = Context(chat), reply(chat, "Up")
    context.first("", "Where?")
    given, length = context.token_ids, len(context.token_ids)
    context.reply(sampled)
    replied, longer = context.token_ids, len(context.token_ids)
    context.next("And now?")
    assert (len(given), len(replied)) == (length, longer)
    assert sampled.token_ids == [*chat.tokenizer.encode("Up", add_special_tokens=False), chat.end_of_turn_id]


def test_there_is_no_next_prompt_before_the_first_reply(chat: ChatFormat) -> None:
    context = Context(chat)
    context.first("", "Where?")
    with pytest.raises(AssertionError, match="no reply yet"):
        context.next("And now?")
