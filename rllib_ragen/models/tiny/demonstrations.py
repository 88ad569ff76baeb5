"""Token sequences of demonstrations, made by worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerFast

from ragen_envs import make_text_env
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.tiny.teacher import Message, demonstrate
from rllib_ragen.models.tiny.tokenizer import TURN_END, TURN_START

TASK_SEED_STRIDE = 10_000_000
"""Demonstrations of a later phase start here × phase, so that phases see different rooms."""


@dataclass(frozen=True)
class Recipe:
    """What is demonstrated: `count` episodes of `env`, of which the teacher guesses `guess_rate` of the turns."""

    env: str
    count: int
    guess_rate: float
    task: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Sample:
    """One conversation: tokens and which of them the assistant wrote."""

    token_ids: npt.NDArray[np.int32]
    trained: npt.NDArray[np.bool_]


def conversations(recipe: Recipe, first_seed: int) -> Iterator[list[Message]]:
    """The recipe's episodes; the same for the same arguments."""
    env = make_text_env(recipe.env, task=dict(recipe.task), limits={"prompt_style": "brief"})
    for seed in range(first_seed, first_seed + recipe.count):
        yield demonstrate(env, seed, recipe.guess_rate, np.random.default_rng([seed, 1]))


def as_text(messages: list[Message]) -> str:
    """The conversation as the chat template renders it."""
    return "".join(f"{TURN_START}{m.role}\n{m.content}{TURN_END}\n" for m in messages)


def encode(messages: list[Message], chat: ChatFormat) -> Sample:
    """Tokens as a rollout has them, by the same chat format; every reply ends with its end-of-turn token."""
    system, first, *rest = messages
    parts = [(chat.first_prompt(system.content, first.content), False)]
    for message in rest:
        if message.role == "assistant":
            reply = chat.tokenizer.encode(message.content, add_special_tokens=False)
            parts.append(([*reply, chat.stop_token_ids[0]], True))
        else:
            parts.append((chat.next_prompt(message.content, finished=True), False))
    return Sample(
        np.array([token for ids, _ in parts for token in ids], np.int32),
        np.array([is_reply for ids, is_reply in parts for _ in ids], np.bool_),
    )


def make_samples(
    recipes: list[Recipe], first_seed: int, tokenizer: PreTrainedTokenizerFast, workers: int, chunk: int = 500
) -> list[Sample]:
    """All samples of all recipes, in an order that does not depend on the number of workers."""
    jobs: list[tuple[Recipe, int]] = []
    for recipe in recipes:
        for start in range(0, recipe.count, chunk):
            part = Recipe(recipe.env, min(chunk, recipe.count - start), recipe.guess_rate, recipe.task)
            jobs.append((part, first_seed + start))
    work: Callable[[tuple[Recipe, int]], list[Sample]] = partial(_encode_job, tokenizer)
    with ProcessPoolExecutor(workers) as pool:
        return [sample for part in pool.map(work, jobs) for sample in part]


def _encode_job(tokenizer: PreTrainedTokenizerFast, job: tuple[Recipe, int]) -> list[Sample]:
    chat = ChatFormat(tokenizer)
    return [encode(messages, chat) for messages in conversations(*job) if messages[-1].role == "assistant"]
