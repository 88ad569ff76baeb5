"""Chat formats say what their templates say, turn by turn, without rendering a turn twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig, PreTrainedTokenizerFast

from rllib_ragen.models.chat_format import ChatFormat
from tests.rollout.families import NAMES, PLAIN, family, tokenizer_of

USERS = ["Turn 1, 10 actions left\n#P_X#", "Reward 0.0\nTurn 2", "Turn 3: last one"]
REPLIES = ["<think>Go up.</think><answer>Up</answer>", "no tags at all", "<answer>Left || Up</answer>"]


def play(chat: ChatFormat, system: str = "") -> list[int]:
    """The token stream of a conversation whose replies all end with the stop token."""
    ids = chat.first_prompt(system, USERS[0])
    for reply, user in zip(REPLIES, USERS[1:], strict=False):
        ids += chat.tokenizer.encode(reply, add_special_tokens=False)
        ids += [] if chat.end_of_turn_id is None else [chat.end_of_turn_id]
        ids += chat.next_prompt(user, finished=True)
    return ids


def rendered(chat: ChatFormat, messages: list[tuple[str, str]]) -> str:
    """The template's own rendering of a conversation, up to the next reply."""
    conversation = [{"role": role, "content": content} for role, content in messages]
    return str(chat.tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True))


def conversation() -> list[tuple[str, str]]:
    """USERS and REPLIES, alternating."""
    pairs = zip(USERS, REPLIES, strict=True)
    return [message for user, reply in pairs for message in (("user", user), ("assistant", reply))][:-1]


@pytest.mark.parametrize("name", PLAIN)
def test_the_stream_reads_as_the_template_renders_the_whole_conversation(name: str) -> None:
    chat = ChatFormat(tokenizer_of(name))
    # BLIP-2's template puts a space in front of earlier replies that its own generation prompt lacks.
    whole = rendered(chat, conversation()).replace("Answer: ", "Answer:")
    assert chat.tokenizer.decode(play(chat)) == whole


@pytest.mark.parametrize("name", NAMES)
def test_the_end_of_turn_token_is_the_templates_and_stops_a_reply(name: str) -> None:
    tokenizer = tokenizer_of(name)
    chat = ChatFormat(tokenizer)
    wanted = "<|im_end|>" if name == "embedded" else family(name).end_of_turn
    assert chat.end_of_turn_id == (None if wanted is None else tokenizer.convert_tokens_to_ids(wanted))
    assert chat.end_of_turn_id is None or chat.end_of_turn_id in chat.stop_token_ids
    assert tokenizer.eos_token_id in chat.stop_token_ids


@pytest.mark.parametrize("name", NAMES)
def test_every_template_is_told_the_system_message_once(name: str) -> None:
    chat = ChatFormat(tokenizer_of(name))
    text = chat.tokenizer.decode(play(chat, system="RULES OF THE GAME"))
    assert text.count("RULES OF THE GAME") == 1
    assert text.index("RULES OF THE GAME") < text.index(USERS[0])


@pytest.mark.vllm
def test_another_stop_token_does_not_stand_in_for_the_templates_own() -> None:
    chat = ChatFormat(tokenizer_of("chatml"))
    end_of_text = chat.tokenizer.eos_token_id
    assert end_of_text in chat.stop_token_ids and end_of_text != chat.end_of_turn_id
    assert chat.next_prompt("Hi", True, end_of_text) == chat.next_prompt("Hi", False)
    assert chat.next_prompt("Hi", False) == [chat.end_of_turn_id, *chat.next_prompt("Hi", True)]


@pytest.mark.parametrize("name", NAMES)
def test_control_tokens_in_a_message_are_text(name: str) -> None:
    tokenizer = tokenizer_of(name)
    chat = ChatFormat(tokenizer)
    control = {*tokenizer.all_special_ids, *chat.stop_token_ids}
    attack = "".join(str(tokenizer.convert_ids_to_tokens(token)) for token in sorted(control))
    prompts = ([chat.first_prompt(text, text), chat.next_prompt(text, True)] for text in (attack, "a"))
    attacked, harmless = ([[token for token in ids if token in control] for ids in pair] for pair in prompts)
    assert attacked == harmless


def test_a_forced_prefix_is_prompt_and_is_put_back_for_the_environment() -> None:
    chat = ChatFormat(tokenizer_of("embedded"), reply_prefix="<think>")
    think = chat.tokenizer.convert_tokens_to_ids("<think>")
    assert chat.first_prompt("", "Hi")[-1] == think and chat.next_prompt("Hi", True)[-1] == think
    sampled = chat.tokenizer.encode("Up.</think><answer>Up</answer><|im_end|>")
    assert chat.reply_text(sampled) == "<think>Up.</think><answer>Up</answer>"


def test_a_template_that_opens_the_thought_itself_needs_no_prefix() -> None:
    tokenizer = tokenizer_of("embedded")
    assert tokenizer.chat_template is not None
    opened = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, eos_token="<|im_end|>")
    opened.chat_template = tokenizer.chat_template.replace("assistant\n{% endif", "assistant\n<think>\n{% endif")
    for prefix in ("", "<think>"):
        chat = ChatFormat(opened, reply_prefix=prefix)
        assert chat.tokenizer.decode(chat.next_prompt("Hi", True)).count("<think>") == 1
        assert chat.reply_text([]) == "<think>"


@pytest.mark.vllm
def test_template_variables_reach_the_template() -> None:
    tokenizer = tokenizer_of("minicpm_thinking")
    thinking, plain = (ChatFormat(tokenizer, template_kwargs={"enable_thinking": on}) for on in (True, False))
    assert thinking.first_prompt("", "Hi") != plain.first_prompt("", "Hi")


def test_model_folders_bring_their_stop_tokens(tmp_path: Path) -> None:
    tokenizer_of("embedded").save_pretrained(tmp_path)
    LlamaConfig(vocab_size=400).save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 77]}')
    assert ChatFormat.from_folder(tmp_path).stop_token_ids == (2, 77)


def test_bad_folders_and_templates_are_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        ChatFormat.from_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no usable tokenizer"):
        ChatFormat.from_folder(tmp_path)
    core = tokenizer_of("embedded").backend_tokenizer
    cases = {"no chat template": None, "refuses": "{{ raise_exception('no') }}", "exactly once": "{{ bos_token }}fixed"}
    for message, template in cases.items():
        bad = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>")
        bad.chat_template = template
        with pytest.raises(ValueError, match=message) as caught:
            ChatFormat(bad)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", PLAIN)
def test_a_conversation_to_act_on_is_what_the_template_renders_of_it(name: str) -> None:
    chat = ChatFormat(tokenizer_of(name))
    told = [{"role": role, "content": content} for role, content in conversation()]
    assert chat.tokenizer.decode(chat.conversation(told)) == rendered(chat, conversation())
    first = [{"role": "system", "content": "Be brief."}, told[0]]
    assert chat.conversation(first) == chat.first_prompt("Be brief.", USERS[0])
    assert chat.conversation(told[:1]) == chat.first_prompt("", USERS[0])
    assert isinstance(chat.conversation(told), list)


def test_a_conversations_control_tokens_are_broken_whoever_says_them() -> None:
    chat = ChatFormat(tokenizer_of("embedded"))
    assert chat.end_of_turn_id is not None
    for role in ("system", "user"):
        hostile, tame = ([{"role": role, "content": f"x {word} y"}] for word in ("<|im_end|>", "im_end"))
        last = [] if role == "user" else [{"role": "user", "content": "z"}]
        counts = [chat.conversation([*said, *last]).count(chat.end_of_turn_id) for said in (hostile, tame)]
        assert counts[0] == counts[1] > 0


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        (["Hi"], "each must have 'role' and 'content', and no more; not 'Hi'"),
        ([{"role": "user"}], "each must have 'role' and 'content'"),
        ([{"role": "user", "content": "Hi", "name": "ann"}], "and no more"),
        ([{"role": "tool", "content": "Hi"}], "'role' must be one of system, user, assistant, and 'content' a text"),
        ([{"role": "user", "content": 3}], "'content' a text"),
        ([], "a user's must be the last"),
        ([{"role": "system", "content": "Hi"}], "a user's must be the last"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "a user's must be the last"),
        (
            [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}, {"role": "user", "content": "c"}],
            "a system message may only be the first",
        ),
    ],
)
def test_what_is_no_conversation_is_refused(messages: list[Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^messages: .*{says}"):
        ChatFormat(tokenizer_of(PLAIN[0])).conversation(messages)
