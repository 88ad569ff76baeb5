"""The reply grammar: total, strict, and the inverse of format_reply."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_envs.reply import SEPARATOR, format_reply, parse_reply

TAGS = ("<think>", "</think>", "<answer>", "</answer>")
PIECES = st.lists(
    st.one_of(st.sampled_from([*TAGS, SEPARATOR, "|", "Up", " ", "\n"]), st.text(max_size=5)), max_size=12
)
FREE_TEXT = st.text(max_size=40).filter(lambda text: not any(tag in text for tag in TAGS))
ACTION = FREE_TEXT.map(str.strip).filter(lambda text: text != "" and "|" not in text)


@given(st.text(), st.booleans())
def test_no_text_makes_it_raise(text: str, think: bool) -> None:
    parse_reply(text, think=think)


@given(PIECES.map("".join), st.booleans())
def test_malformed_replies_have_no_actions_and_well_formed_ones_no_tags(text: str, think: bool) -> None:
    reply = parse_reply(text, think=think)
    if not reply.well_formed:
        assert reply.actions == ()
    for part in (reply.thought, *reply.actions):
        assert not any(tag in part for tag in TAGS)
    assert all(action and action == action.strip() and SEPARATOR not in action for action in reply.actions)


@given(st.lists(ACTION, max_size=6), FREE_TEXT)
def test_parsing_undoes_formatting(actions: list[str], thought: str) -> None:
    reply = parse_reply(format_reply(actions, thought))
    assert (reply.well_formed, reply.actions, reply.thought) == (True, tuple(actions), thought.strip())
    short = parse_reply(format_reply(actions), think=False)
    assert (short.well_formed, short.actions, short.thought) == (True, tuple(actions), "")


@pytest.mark.parametrize(
    "text",
    [
        "<answer>Up</answer>",  # no thought
        "<think>a</think>",
        "<think>a</think><answer>Up",
        "<think>a<answer>Up</answer>",
        "<answer>Up</answer><think>a</think>",
        "<think>a</think><answer>Up</answer><answer>Down</answer>",
        "<think>a</think><think>b</think><answer>Up</answer>",
        "<think>I will say <answer>Down</answer></think><answer>Up</answer>",
        "<think>a</think>so<answer>Up</answer>",
        "<think>a</think><answer>Up</answer> done",
        "well <think>a</think><answer>Up</answer>",
        "<THINK>a</THINK><ANSWER>Up</ANSWER>",
        "< think>a</think><answer>Up</answer>",
    ],
)
def test_only_one_thought_then_one_answer_is_well_formed(text: str) -> None:
    assert not parse_reply(text).well_formed


def test_a_thought_where_none_is_wanted_is_malformed() -> None:
    assert not parse_reply("<think>a</think><answer>Up</answer>", think=False).well_formed
    assert parse_reply(" <answer>Up</answer>\n", think=False).actions == ("Up",)


def test_empty_parts_of_an_answer_are_no_actions() -> None:
    assert parse_reply("<think></think><answer> || Up ||  || Down||</answer>").actions == ("Up", "Down")
    empty = parse_reply("<think></think><answer></answer>")
    assert (empty.well_formed, empty.actions) == (True, ())


WITH_THOUGHT = re.compile(r"\s*<think>(.*?)</think>\s*<answer>(.*?)</answer>\s*", re.DOTALL)
ANSWER_ONLY = re.compile(r"\s*()<answer>(.*?)</answer>\s*", re.DOTALL)


@given(PIECES.map("".join), st.booleans())
def test_the_grammar_is_this_pattern_with_each_tag_once(text: str, think: bool) -> None:
    """Plain to read, and far too slow for a long reply."""
    match = (WITH_THOUGHT if think else ANSWER_ONLY).fullmatch(text)
    reply = parse_reply(text, think=think)
    assert reply.well_formed == (match is not None and sum(text.count(tag) for tag in TAGS) == (4 if think else 2))
    if reply.well_formed and match is not None:
        assert reply.thought == match[1].strip()
        assert reply.actions == tuple(part.strip() for part in match[2].split(SEPARATOR) if part.strip())
