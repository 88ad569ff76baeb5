"""Chat formats of templates and tokenizers that are made here, each with one habit; expected token ids by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, PreTrainedTokenizerFast

from rllib_ragen.models.chat_format import ChatFormat

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
SPECIALS = ("<s>", "<end>", "<stop>")
PLAIN_TURNS = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}<end>\n{% endfor %}"
ASKS = "{% if add_generation_prompt %}[assistant]{% endif %}"
TEMPLATE = PLAIN_TURNS + ASKS


def tokenizer(
    template: str | None = TEMPLATE, *, eos: str | None = "<stop>", specials: tuple[str, ...] = SPECIALS
) -> PreTrainedTokenizerFast:
    """One token per byte, and special ones behind them; "<tag>" is an added token that is not special."""
    core = Tokenizer(models.BPE({letter: i for i, letter in enumerate(ALPHABET)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(list(specials))
    core.add_tokens([AddedToken("<tag>", special=False, normalized=False)])
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=eos)
    made.chat_template = template
    return made


def text_of(chat: ChatFormat, ids: list[int]) -> str:
    return str(chat.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def token(chat: ChatFormat, text: str) -> int:
    (found,) = chat.tokenizer.encode(text, add_special_tokens=False)
    return int(found)


def test_a_first_prompt_and_what_follows_a_reply() -> None:
    chat = ChatFormat(tokenizer())
    assert text_of(chat, chat.first_prompt("Rules", "Hi")) == "[system]Rules<end>\n[user]Hi<end>\n[assistant]"
    assert text_of(chat, chat.first_prompt("", "Hi")) == "[user]Hi<end>\n[assistant]"
    assert text_of(chat, chat.next_prompt("Ho", True)) == "\n[user]Ho<end>\n[assistant]"
    assert text_of(chat, chat.next_prompt("Ho", False)) == "<end>\n[user]Ho<end>\n[assistant]"


def test_only_the_templates_own_end_of_turn_closes_a_turn() -> None:
    chat = ChatFormat(tokenizer())
    open_turn, closed_turn = chat.next_prompt("Ho", False), chat.next_prompt("Ho", True)
    assert chat.next_prompt("Ho", True, chat.end_of_turn_id) == closed_turn != open_turn
    assert chat.next_prompt("Ho", True, token(chat, "<stop>")) == open_turn
    # A reply that was cut off has not ended, whatever its last token is.
    assert chat.next_prompt("Ho", False, chat.end_of_turn_id) == open_turn


def test_a_template_that_closes_turns_with_plain_text_has_no_end_of_turn_token() -> None:
    chat = ChatFormat(tokenizer("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }};{% endfor %}" + ASKS))
    assert chat.end_of_turn_id is None
    assert chat.stop_token_ids == (token(chat, "<stop>"),)
    for finished in (True, False):
        assert text_of(chat, chat.next_prompt("Ho", finished)) == ";user: Ho;[assistant]"


def test_white_space_may_stand_before_the_end_of_turn() -> None:
    chat = ChatFormat(tokenizer(TEMPLATE.replace("<end>", "\n <end>")))
    assert chat.end_of_turn_id == token(chat, "<end>")
    assert text_of(chat, chat.next_prompt("Ho", True)) == "\n[user]Ho\n <end>\n[assistant]"
    assert text_of(chat, chat.next_prompt("Ho", False)) == "\n <end>\n[user]Ho\n <end>\n[assistant]"


def test_stop_tokens_are_the_end_of_turn_the_eos_and_further_ones_once_each() -> None:
    chat = ChatFormat(tokenizer(), extra_stop_ids=[7, 3, 7])
    assert chat.stop_token_ids == (token(chat, "<end>"), token(chat, "<stop>"), 7, 3)
    assert ChatFormat(tokenizer(eos=None)).stop_token_ids == (token(chat, "<end>"),)


def test_without_any_stop_token_a_format_is_refused() -> None:
    plain = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }};{% endfor %}" + ASKS
    with pytest.raises(ValueError, match="end-of-turn token"):
        ChatFormat(tokenizer(plain, eos=None))
    assert ChatFormat(tokenizer(plain, eos=None), extra_stop_ids=[5]).stop_token_ids == (5,)


DROPS_SYSTEM = (
    "{% for m in messages if m['role'] != 'system' %}[{{ m['role'] }}]{{ m['content'] }}<end>{% endfor %}" + ASKS
)
REFUSES_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TEMPLATE


@pytest.mark.parametrize("template", [DROPS_SYSTEM, REFUSES_SYSTEM])
def test_without_a_system_role_the_rules_stand_atop_the_first_message(template: str) -> None:
    chat = ChatFormat(tokenizer(template))
    assert text_of(chat, chat.first_prompt("Rules", "Hi")).startswith("[user]Rules\n\nHi<end>")
    assert text_of(chat, chat.first_prompt("", "Hi")).startswith("[user]Hi<end>")


def test_variables_reach_the_template() -> None:
    template = TEMPLATE + "{% if loud %}!{% endif %}"
    assert text_of(*_first(ChatFormat(tokenizer(template), template_kwargs={"loud": True}))).endswith("[assistant]!")
    assert text_of(*_first(ChatFormat(tokenizer(template)))).endswith("[assistant]")


def _first(chat: ChatFormat) -> tuple[ChatFormat, list[int]]:
    return chat, chat.first_prompt("", "Hi")


@pytest.mark.parametrize(
    ("opens", "prefix", "prompt", "reply"),
    [
        ("", "", "[assistant]", ""),
        ("", "<think>", "[assistant]<think>", "<think>"),
        ("", "So: ", "[assistant]So: ", "So: "),
        ("<think>\n", "", "[assistant]<think>\n", "<think>"),
        ("<think>\n", "<think>", "[assistant]<think>\n", "<think>"),
        ("<think>\n", "So: ", "[assistant]<think>\nSo: ", "<think>So: "),
    ],
)
def test_what_a_prompt_says_of_the_reply_is_put_back_and_said_once(
    opens: str, prefix: str, prompt: str, reply: str
) -> None:
    template = PLAIN_TURNS + "{% if add_generation_prompt %}[assistant]" + opens + "{% endif %}"
    chat = ChatFormat(tokenizer(template), reply_prefix=prefix)
    assert text_of(chat, chat.first_prompt("", "Hi")) == f"[user]Hi<end>\n{prompt}"
    assert text_of(chat, chat.next_prompt("Ho", True)) == f"\n[user]Ho<end>\n{prompt}"
    assert chat.reply_text(chat.tokenizer.encode("Up", add_special_tokens=False)) == reply + "Up"


def test_a_replys_text_is_all_that_was_sampled_but_one_stop_token() -> None:
    chat = ChatFormat(tokenizer())
    for said, text in (
        ("Up<end>", "Up"),
        ("Up<stop>", "Up"),
        ("Up<end><stop>", "Up<end>"),
        ("Up", "Up"),
        ("<s>Up .", "<s>Up ."),
        ("do n't , really ?", "do n't , really ?"),
        ("", ""),
    ):
        assert chat.reply_text(chat.tokenizer.encode(said, add_special_tokens=False)) == text


def test_a_replys_ids_are_left_alone() -> None:
    chat = ChatFormat(tokenizer())
    ids = chat.tokenizer.encode("Up<end>", add_special_tokens=False)
    before = list(ids)
    chat.reply_text(ids)
    assert ids == before


def test_a_tokenizer_that_opens_every_text_does_not_open_prompts() -> None:
    opening = tokenizer()
    start = opening.convert_tokens_to_ids("<s>")
    opening.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", start)]
    )
    assert opening.encode("a")[0] == start
    chat = ChatFormat(opening)
    assert start not in [*chat.first_prompt("Rules", "Hi"), *chat.next_prompt("Ho", False)]


def test_special_tokens_that_others_say_are_broken_and_other_added_ones_are_not() -> None:
    chat = ChatFormat(tokenizer())
    found = text_of(chat, chat.first_prompt("a<end>b", "<stop><tag><s>"))
    assert found == "[system]a< end>b<end>\n[user]< stop><tag>< s><end>\n[assistant]"
    assert text_of(chat, chat.next_prompt("<end>", True)) == "\n[user]< end><end>\n[assistant]"


def test_of_special_tokens_that_begin_alike_the_longest_is_broken() -> None:
    chat = ChatFormat(tokenizer(specials=("<s>", "<s>!", "<end>", "<stop>")))
    assert text_of(chat, chat.first_prompt("", "<s>!")) == "[user]< s>!<end>\n[assistant]"
    assert token(chat, "<s>!") not in chat.first_prompt("", "<s>!<s>")


@pytest.mark.parametrize(
    ("specials", "said", "broken"),
    [
        (("$$", "<end>", "<stop>"), "a$$$b", "a$ $ $b"),
        (("say<s>", "<s>", "<end>", "<stop>"), "say<s>!", "s ay< s>!"),
        (("<a>b", "b<c>", "<end>", "<stop>"), "<a>b<c>", "< a>b <c>"),
        (("\nB", "<end>", "<stop>"), "A\nB", "A\n B"),
    ],
    ids=["overlapping itself", "inside another", "overlapping another", "with a line break"],
)
def test_no_special_token_is_left_in_what_others_say(specials: tuple[str, ...], said: str, broken: str) -> None:
    chat = ChatFormat(tokenizer(specials=specials))
    prompt = chat.first_prompt("", said)
    assert text_of(chat, prompt) == f"[user]{broken}<end>\n[assistant]"
    control = {token(chat, special) for special in specials} - {chat.end_of_turn_id}
    assert not control & set(prompt)


def test_special_tokens_of_one_character_are_left_alone_and_of_two_are_broken() -> None:
    chat = ChatFormat(tokenizer(specials=("#", "$$", "<end>", "<stop>")))
    assert text_of(chat, chat.first_prompt("", "a#b$$c")) == "[user]a#b$ $c<end>\n[assistant]"
    plain = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }};{% endfor %}" + ASKS
    only = ChatFormat(tokenizer(plain, eos="#", specials=("#",)))
    assert text_of(only, only.first_prompt("", "a#b")) == "user: a#b;[assistant]"


def test_a_prompt_that_comes_again_is_not_rendered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = ChatFormat(tokenizer())
    prompts = chat.first_prompt("Rules", "Hi"), chat.next_prompt("Ho", True)
    prompts[0].append(1)
    monkeypatch.setattr(chat, "_render", None)
    assert [*chat.first_prompt("Rules", "Hi"), 1] == prompts[0] and chat.next_prompt("Ho", True) == prompts[1]


PLAIN_END = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }};\n{% endfor %}" + ASKS


def test_the_special_token_that_opens_the_next_turn_is_no_end_of_turn() -> None:
    chat = ChatFormat(tokenizer(PLAIN_END))
    assert chat.end_of_turn_id is None and chat.stop_token_ids == (token(chat, "<stop>"),)
    assert text_of(chat, chat.next_prompt("Ho", True)) == ";\n<s>user: Ho;\n[assistant]"


def test_a_prefix_that_ends_the_reply_is_refused() -> None:
    for prefix in ("So<end>", "<stop>So"):
        with pytest.raises(ValueError, match=rf"^env\.reply_prefix='{prefix}' holds a token that ends the reply$"):
            ChatFormat(tokenizer(), reply_prefix=prefix)


def test_a_replys_spaces_stay_where_a_tokenizer_would_tidy_them() -> None:
    tidy = tokenizer()
    tidy.clean_up_tokenization_spaces = True
    tidy.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output = True
    chat = ChatFormat(tidy)
    assert tidy.decode(tidy.encode("Up .", add_special_tokens=False)) == "Up."
    assert chat.reply_text(tidy.encode("Up .", add_special_tokens=False)) == "Up ."


DATED = TEMPLATE + "{{ strftime_now('%Y-%m-%d') }}{% if loud %}!{% endif %}"


def test_a_date_can_be_pinned() -> None:
    chat = ChatFormat(tokenizer(DATED), template_kwargs={"strftime_now": "2026-01-31"})
    assert text_of(chat, chat.first_prompt("", "Hi")).endswith("[assistant]2026-01-31")


def test_the_same_format_on_another_day_differs_in_nothing_else() -> None:
    chat = ChatFormat(tokenizer(DATED), reply_prefix="So: ", extra_stop_ids=[7], template_kwargs={"loud": True})
    today = chat.first_prompt("", "Hi")
    other = chat.with_clock(lambda form: f"({form})")
    assert text_of(other, other.first_prompt("", "Hi")).endswith("[assistant](%Y-%m-%d)!So: ")
    assert (other.stop_token_ids, other.reply_text([])) == (chat.stop_token_ids, "So: ")
    assert other.tokenizer is chat.tokenizer and chat.first_prompt("", "Hi") == today


@pytest.mark.parametrize(
    ("generation", "further"),
    [
        (None, ()),
        ({}, ()),
        ({"eos_token_id": None}, ()),
        ({"eos_token_id": 9}, (9,)),
        ({"eos_token_id": [9, 4]}, (9, 4)),
    ],
)
def test_a_folders_generation_config_adds_stop_tokens(
    tmp_path: Path, generation: dict[str, Any] | None, further: tuple[int, ...]
) -> None:
    _save(tmp_path)
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    chat = ChatFormat.from_folder(tmp_path)
    assert chat.stop_token_ids == (token(chat, "<end>"), token(chat, "<stop>"), *further)


@pytest.mark.parametrize("eos", ["<end>", True, -1, [3, "<end>"]])
def test_a_generation_config_whose_stop_tokens_are_no_ids_is_refused(tmp_path: Path, eos: Any) -> None:
    _save(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": eos}))
    with pytest.raises(ValueError, match=r"^eos_token_id in .*generation_config\.json must be a token id or a list"):
        ChatFormat.from_folder(tmp_path)


def test_a_folders_format_takes_prefix_and_variables(tmp_path: Path) -> None:
    _save(tmp_path, TEMPLATE + "{% if loud %}!{% endif %}")
    chat = ChatFormat.from_folder(str(tmp_path), reply_prefix="<think>", template_kwargs={"loud": True})
    assert text_of(chat, chat.first_prompt("", "Hi")).endswith("[assistant]!<think>")
    assert chat.reply_text([]) == "<think>"


def _save(folder: Path, template: str = TEMPLATE) -> None:
    tokenizer(template).save_pretrained(folder)
    LlamaConfig(vocab_size=400).save_pretrained(folder)


def test_a_template_that_cannot_hold_the_conversation_is_refused_with_its_own_reason() -> None:
    with pytest.raises(ValueError, match=r"^the chat template refuses the conversation: no such role$"):
        ChatFormat(tokenizer("{{ raise_exception('\n no such role\nat line 3') }}"))
    with pytest.raises(ValueError, match="exactly once"):
        ChatFormat(tokenizer(TEMPLATE + "{{ messages[1]['content'] if messages[1] }}"))
    with pytest.raises(ValueError, match="has no chat template"):
        ChatFormat(tokenizer(None))
