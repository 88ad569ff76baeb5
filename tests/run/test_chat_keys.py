"""The chat template as a second config: its variables by a key, and a sentence where it contradicts the run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rllib_ragen.config.command_line import run_command
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.chat_template import template_variables
from rllib_ragen.models.check_chat import check_chat
from rllib_ragen.models.folder import model_folder
from rllib_ragen.run.__main__ import parse, plan
from rllib_ragen.starpo.config import StarPOConfig
from tests.rollout.families import NAMES, tokenizer_of

TALK = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
SWITCHED = (
    TALK
    + "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}"
)
LLAMA = (
    "{%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b') %}{%- endif %}{{ date_string }}"
    + TALK
)
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "opens a thought": (TALK + "<think>", {"env.think": False}, "env.think=false, but .*set env.think=true"),
    "may open none": (SWITCHED, {"env.think": False}, r"set model.template_kwargs=\{enable_thinking: false\} or"),
    "closes it": (
        SWITCHED,
        {"model.template_kwargs": {"enable_thinking": False}},
        r"env.think=true, but .*\{enable_thinking: true\} or env.think=false",
    ),
    "unused": (TALK, {"model.template_kwargs": {"enable_thinking": False}}, "does not use 'enable_thinking'"),
    "misspelt": (SWITCHED, {"model.template_kwargs": {"enable_thinkin": 1}}, "did you mean enable_thinking"),
    "ours": (TALK, {"model.template_kwargs": {"messages": []}}, "'messages' is what conversations are rendered with"),
    "no text": (SWITCHED, {"model.template_kwargs": [1]}, "model.template_kwargs: must be a mapping"),
    "today": (TALK + "{{ strftime_now('%Y') }}", {}, r"tells the day's date.*\{strftime_now: 2026-01-31\}"),
    "today, or another day": (LLAMA, {}, r"tells the day's date.*\{date_string: 2026-01-31\}"),
    "no date": (LLAMA, {"model.template_kwargs": {"strftime_now": "soon"}}, "strftime_now must be a date"),
    "counts turns": ("{{ messages|length }} messages\n" + TALK, {}, "tells the first message otherwise"),
    "a prefix of a thought": (TALK, {"env.think": False, "env.reply_prefix": "<think>"}, "env.reply_prefix='<think>'"),
    "a prefix of no reply": (TALK, {"env.reply_prefix": "Plan:"}, "is not how a reply can begin with env.think=true"),
    "a prefix that ends it": (TALK, {"env.reply_prefix": "<think><|im_end|>"}, "holds a token that ends the reply"),
}


def write(folder: Path, template: str) -> Path:
    shutil.copytree(model_folder("tiny"), folder)
    (folder / "chat_template.jinja").write_text(template)
    return folder


def assignments(given: Mapping[str, Any]) -> list[str]:
    return ["--set", *(f"{key}={json.dumps(value)}" for key, value in given.items())] if given else []


@pytest.mark.parametrize(("template", "given", "says"), CASES.values(), ids=CASES)
def test_a_template_that_contradicts_the_run_is_one_sentence(
    template: str, given: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path / "model", template)
    options = parse(["--model", str(folder), "--results-dir", str(tmp_path / "results"), *assignments(given)])
    assert run_command(lambda: bool(plan(options))) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and re.search(says, told), told


@pytest.mark.parametrize(
    ("template", "given"),
    [
        (SWITCHED, {}),
        (SWITCHED, {"env.think": False, "model.template_kwargs": {"enable_thinking": False}}),
        (SWITCHED, {"env.reply_prefix": "<think>The"}),
        (LLAMA, {"model.template_kwargs": {"date_string": "31 Jan"}}),
        (TALK + "{{ strftime_now('%Y') }}", {"model.template_kwargs": {"strftime_now": "2026-01-31"}}),
        (TALK, {"env.reply_prefix": "<think>Player"}),
        (TALK, {"env.reply_prefix": "<answer>", "env.think": False}),
        (TALK + "{% generation %}{% endgeneration %}", {}),
    ],
)
def test_what_fits_is_taken_and_saved_with_the_run(template: str, given: dict[str, Any], tmp_path: Path) -> None:
    folder = write(tmp_path / "model", template)
    job = plan(parse(["--model", str(folder), "--results-dir", str(tmp_path / "results"), *assignments(given)]))
    saved = job.folder.config()
    assert saved.model.template_kwargs == given.get("model.template_kwargs", {})
    assert saved.env.reply_prefix == given.get("env.reply_prefix", "")
    config = StarPOConfig.from_run_config(saved)
    assert config.to_run_config().model == saved.model and config.to_run_config().env == saved.env
    chat = config.chat_format()
    assert chat.reply_text([]).startswith(saved.env.reply_prefix)
    assert chat.template_kwargs == saved.model.template_kwargs


def test_variables_and_prefix_reach_the_prompt(tmp_path: Path) -> None:
    folder = write(tmp_path / "model", SWITCHED + "{{ strftime_now('%Y') }}")
    config = StarPOConfig().llm(
        model=str(folder),
        template_kwargs={"enable_thinking": False, "strftime_now": "1999-01-31"},
        reply_prefix="<answer>",
    )
    prompt = str(config.chat_format().tokenizer.decode(config.chat_format().first_prompt("", "Hi")))
    assert prompt.endswith("</think>\n\n1999<answer>")


def test_a_prefix_that_the_template_begins_itself_is_not_said_twice(tmp_path: Path) -> None:
    chat = ChatFormat.from_folder(write(tmp_path / "model", SWITCHED), reply_prefix="<think>Player")
    assert chat.tokenizer.decode(chat.next_prompt("Hi", True)).count("<think>") == 1
    assert chat.reply_text([]) == "<think>Player"


def test_variables_are_found_wherever_a_template_looks_at_them() -> None:
    assert {"enable_thinking"} <= template_variables(SWITCHED)
    assert {"date_string", "strftime_now"} <= template_variables(LLAMA)
    assert template_variables("{% set x = 1 %}{{ x }}{% for y in messages %}{{ y }}{% endfor %}") == {"messages"}


@pytest.mark.parametrize("name", NAMES)
def test_templates_of_real_families_fit(name: str) -> None:
    check_chat(ChatFormat(tokenizer_of(name)), None)
