"""Consistency of chat template, reply grammar and their config keys, without which every reply is malformed."""

from __future__ import annotations

from ragen_envs.reply import parse_reply
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.models.chat_format import THINK, THOUGHT_END, ChatFormat
from rllib_ragen.models.chat_template import NOW, check_variables, template_text, template_variables

_TODAY = "RAGENTODAY"
_STANDIN = "RAGENSTANDIN"
_REPLIES = {True: "<think>a</think><answer>b</answer>", False: "<answer>b</answer>"}
_SWITCHES = ("enable_thinking", "thinking")
"""Template variables of some model families that turn thoughts on and off."""
_DATES = ("date_string", "current_date", "today", "date")


def check_chat(chat: ChatFormat, think: bool | None) -> None:
    """Checks that replies in this format can be well-formed, turn after turn, on any day.

    Args:
        chat: the model's format, with the run's `env.reply_prefix` and `model.template_kwargs`.
        think: the run's `env.think`; None for environments with a grammar of their own.

    Raises:
        ConfigError: one sentence with the key to set.
    """
    template = template_text(chat.tokenizer)
    try:
        check_variables(template, chat.template_kwargs)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    variables = template_variables(template)
    if think is not None:
        _check_thought(chat, think, next((name for name in _SWITCHES if name in variables), None))
        _check_prefix(chat, think)
    _check_date(chat, variables)
    _check_history(chat)


def _check_thought(chat: ChatFormat, think: bool, switch: str | None) -> None:
    if not think and chat.opening.endswith(THINK):
        ways = [f"model.template_kwargs={{{switch}: false}}"] * (switch is not None) + ["env.think=true"]
        raise ConfigError(
            f"env.think=false, but the chat template opens every reply with {THINK}, so that none would be well-formed;"
            f" set {' or '.join(ways)}"
        )
    if think and chat.opening.endswith(THOUGHT_END):
        ways = [f"model.template_kwargs={{{switch}: true}}"] * (switch is not None) + ["env.think=false"]
        raise ConfigError(
            f"env.think=true, but the chat template closes the thought before the reply ({THOUGHT_END}), so that"
            f" replies would have none; set {' or '.join(ways)}"
        )


def _check_prefix(chat: ChatFormat, think: bool) -> None:
    reply = _REPLIES[think]
    rests = (reply[start:] for start in range(len(reply) + 1))
    if chat.reply_prefix and not any(parse_reply(chat.reply_prefix + rest, think=think).well_formed for rest in rests):
        raise ConfigError(
            f"env.reply_prefix={chat.reply_prefix!r} is not how a reply can begin with env.think={str(think).lower()}:"
            f" {reply.replace('a<', '…<').replace('b<', '…<')}"
        )


def _check_date(chat: ChatFormat, variables: set[str]) -> None:
    if NOW not in variables or NOW in chat.template_kwargs:
        return
    told = chat.with_clock(lambda pattern: _TODAY)
    if any(_TODAY in told.text(conversation) for conversation in (_talk(1), _talk(1, system=True))):
        name = next((name for name in _DATES if name in variables), NOW)
        raise ConfigError(
            "model.template_kwargs: the chat template tells the day's date, so that prompts change at midnight and no"
            f" run can be repeated; set a fixed one, as model.template_kwargs={{{name}: 2026-01-31}}"
        )


def _check_history(chat: ChatFormat) -> None:
    """Replies in between are not compared: templates may leave thoughts out; here every token is kept."""
    before = chat.text(_talk(1))
    for turns in (2, 3):
        first = chat.text(_talk(turns)).split(_STANDIN)[0].rstrip()
        if not before.startswith(first):
            raise ConfigError(
                "model.path: the chat template tells the first message otherwise once others follow (turn numbers?),"
                " but a trajectory's tokens stay as they were sampled; give the folder a template that only appends"
            )


def _talk(turns: int, *, system: bool = False) -> list[dict[str, str]]:
    """Returns a conversation of `turns` user messages, with a stand-in for each reply."""
    messages = [{"role": "system", "content": "Rules"}] if system else []
    for turn in range(turns):
        if turn:
            messages.append({"role": "assistant", "content": _STANDIN})
        messages.append({"role": "user", "content": f"Message {turn}"})
    return messages
