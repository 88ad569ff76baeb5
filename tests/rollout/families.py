"""Tokenizers with real chat templates of different families, taken from installed packages; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ragen_envs.registry import make_text_env
from rllib_ragen.models.tiny.tokenizer import train_tokenizer

TEXTS = [
    "Turn 1, 10 actions left. The player pushes the box to the target.\n\n",
    "<think>Go up, then left.</think><answer>Up || Left</answer>\n",
    "Question: which arm pays best? Answer: the second one.\n You are a helpful agent. ",
    "user assistant system Reward -0.1, no valid action\n",
]


@dataclass(frozen=True)
class Family:
    """One chat template and the special tokens of its models."""

    template: str
    specials: tuple[str, ...]
    eos: str
    end_of_turn: str | None
    """Token that ends an assistant's turn; None if the template has none."""


def _vllm_template(name: str) -> str:
    """A template shipped with vLLM, read without importing it."""
    spec = find_spec("vllm")
    assert spec is not None and spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0])
    return (root / "transformers_utils" / "chat_templates" / f"template_{name}.jinja").read_text()


def _mistral_template(version: str) -> str:
    """A template made by mistral_common, which comes with vLLM."""
    from mistral_common.integrations.chat_templates.chat_templates import generate_chat_template
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

    return generate_chat_template(
        spm=False,
        tokenizer_version=TokenizerVersion(version),
        image_support=False,
        audio_support=False,
        thinking_support=False,
        default_system_prompt=None,
        plain_thinking_support=False,
        use_special_token_variables=True,
        model_settings_fields=None,
        reasoning_effort_values=None,
        reasoning_effort_default=None,
    )


_CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_MISTRAL = ("<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]")
_DEEPSEEK = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")

FAMILIES: dict[str, Callable[[], Family]] = {
    "chatml": lambda: Family(_vllm_template("chatml"), _CHATML, "<|endoftext|>", "<|im_end|>"),
    "minicpm_thinking": lambda: Family(_vllm_template("minicpmv45"), _CHATML, "<|im_end|>", "<|im_end|>"),
    "deepseek_vl2": lambda: Family(_vllm_template("deepseek_vl2"), _DEEPSEEK, _DEEPSEEK[1], _DEEPSEEK[1]),
    "mistral_v3": lambda: Family(_mistral_template("v3"), _MISTRAL, "</s>", "</s>"),
    "mistral_v7": lambda: Family(_mistral_template("v7"), _MISTRAL, "</s>", "</s>"),
    "no_markup": lambda: Family(_vllm_template("basic"), ("</s>",), "</s>", None),
    "blip2_plain_text": lambda: Family(_vllm_template("blip2"), ("</s>",), "</s>", None),
}
# The templates come with vLLM.
NAMES: list[Any] = ["embedded", *(pytest.param(name, marks=pytest.mark.vllm) for name in FAMILIES)]
PLAIN: list[Any] = [NAMES[0], *(name for name in NAMES[1:] if name.values != ("minicpm_thinking",))]
"""Without the one that changes earlier assistant turns when it renders a conversation."""


@cache
def family(name: str) -> Family:
    """The family `name` of FAMILIES."""
    return FAMILIES[name]()


@cache
def tokenizer_of(name: str) -> PreTrainedTokenizerBase:
    """The embedded model's kind of tokenizer ("embedded"), or a byte-level BPE with a family's tokens and template."""
    if name == "embedded":
        env = make_text_env("sokoban", limits={"prompt_style": "brief"})
        return train_tokenizer([*TEXTS, *(env.reset(seed=seed)[0] for seed in range(20))], 400)
    spec = family(name)
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(spec.specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(TEXTS * 3, trainer)
    bos = spec.specials[0] if spec.specials[0] not in (spec.eos, "<|endoftext|>") else None
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=spec.eos, bos_token=bos)
    tokenizer.chat_template = spec.template
    return tokenizer
