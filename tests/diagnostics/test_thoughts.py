"""Which tokens are the thought, under tokenizers that cut tags differently, and which thoughts are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rllib_ragen.diagnostics.thoughts import any_turns, first_turns, thought_span
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.types import Trajectory, Turn
from tests.rollout.families import NAMES, tokenizer_of

REPLY = "<think>Go up, then left.</think><answer>Up || Left</answer>"


def characters(token_ids: Sequence[int]) -> str:
    """A tokenizer with one token per character."""
    return "".join(map(chr, token_ids))


def ids_of(text: str) -> list[int]:
    return list(map(ord, text))


def turn(reply: str, prompt: str = "p") -> Turn:
    ids = np.array(ids_of(reply), np.int32)
    return Turn(np.array(ids_of(prompt), np.int32), ids, np.zeros(len(ids), np.float32), 0.0, 0, reply=reply)


@pytest.mark.parametrize("name", NAMES)
def test_the_span_decodes_to_what_stands_between_the_tags(name: str) -> None:
    chat = ChatFormat(tokenizer_of(name))
    ids = [*chat.tokenizer.encode(REPLY, add_special_tokens=False), chat.stop_token_ids[0]]
    span = thought_span(ids, chat.reply_text)
    assert span is not None
    start, end = span
    before, inside = chat.reply_text(ids[:start]), chat.reply_text(ids[start:end])
    # A token that holds a part of a tag belongs to the tag.
    assert before.startswith("<think>") and "Go up" not in before
    assert inside.strip() in "Go up, then left." and len(inside) >= len("Go up, then lef")


def merging(pieces: Sequence[str]) -> Callable[[Sequence[int]], str]:
    return lambda ids: "".join(pieces[i] for i in ids)


def test_tokens_that_span_a_tags_edge_belong_to_the_tag() -> None:
    pieces = ["<thi", "nk>\n", "left", ", up", ".</", "think", "><", "answer>Up</answer>"]
    assert thought_span(range(8), merging(pieces)) == (2, 4)


def test_a_forced_think_tag_lies_before_the_first_sampled_token() -> None:
    assert thought_span(ids_of("up</think>"), lambda ids: "<think>" + characters(ids)) == (0, 2)


def test_letters_of_several_tokens_do_not_move_the_span() -> None:
    raw = "<think>⇧ naïve 猫</think>".encode()
    decode: Callable[[Sequence[int]], str] = lambda ids: bytes(ids).decode(errors="replace")  # noqa: E731
    span = thought_span(list(raw), decode)
    assert span is not None
    assert raw[span[0] : span[1]].decode() == "⇧ naïve 猫"


@pytest.mark.parametrize(
    "reply", ["", "<answer>Up</answer>", "<think>cut off", "up</think>", "</think><think>", "!!!!"]
)
def test_a_reply_without_both_tags_in_order_has_no_thought(reply: str) -> None:
    assert thought_span(ids_of(reply), characters) is None


def test_an_empty_thought_has_an_empty_span_and_is_not_measured() -> None:
    assert thought_span(ids_of("<think></think>"), characters) == (7, 7)
    trajectories = [Trajectory("g", 0, 0, [turn("<think></think>")])]
    assert first_turns(trajectories, 4, characters, [0]).thoughts == []


def groups(count: int, size: int, turns: int = 2) -> list[Trajectory]:
    return [
        Trajectory(f"g{g}", g, m, [turn(f"<think>{g}{m}{k}</think>", f"{g}." if k == 0 else "q") for k in range(turns)])
        for g in range(count)
        for m in range(size)
    ]


def test_first_turns_are_spread_over_all_groups_and_share_their_prompts_column() -> None:
    sample = first_turns(groups(4, 4), 8, characters, [0])
    assert [characters(prompt.tolist()) for prompt in sample.prompts] == [
        f"{characters(prompt.tolist())[0]}.<think>" for prompt in sample.prompts
    ]
    assert np.bincount(sample.own).tolist() == [2, 2, 2, 2]
    for thought, column in zip(sample.thoughts, sample.own, strict=True):
        assert characters(thought.tolist())[0] == characters(sample.prompts[column].tolist())[0]
    assert all(characters(thought.tolist())[2] == "0" for thought in sample.thoughts)


def test_later_turns_are_scored_after_everything_that_came_before() -> None:
    sample = any_turns(groups(1, 1), 2, characters, [0])
    prompts = [characters(sample.prompts[column].tolist()) for column in sample.own]
    seen = {characters(t.tolist()): prompt for t, prompt in zip(sample.thoughts, prompts, strict=True)}
    assert seen == {"000": "0.<think>", "001": "0.<think>000</think>q<think>"}


def test_the_draw_depends_on_its_seed_alone_and_touches_no_global_random_state() -> None:
    trajectories = groups(6, 2)
    np.random.seed(1)
    draws = [any_turns(trajectories, 8, characters, [seed]) for seed in (3, 3, 4)]
    after = np.random.random()
    np.random.seed(1)
    assert np.random.random() == after
    texts = [[characters(t.tolist()) for t in draw.thoughts] for draw in draws]
    assert texts[0] == texts[1] != texts[2]
    assert len(set(texts[0])) == 8


def test_few_thoughts_are_all_taken() -> None:
    sample = any_turns(groups(2, 1), 64, characters, [0])
    assert len(sample.thoughts) == 4
    assert first_turns([], 64, characters, [0]).prompts == []
