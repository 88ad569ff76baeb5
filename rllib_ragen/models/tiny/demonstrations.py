"""Token sequences of demonstrations, made by worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerFast

from ragen_envs import make_text_env
from ragen_envs.seeds import Stream, block_of, generator
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.tiny.teacher import Lesson, Message, demonstrate
from rllib_ragen.models.tiny.tokenizer import TURN_END, TURN_START


@dataclass(frozen=True)
class Recipe:
    """A set of demonstrations: `count` episodes of `env`, played by the teacher according to `lesson`."""

    env: str
    count: int
    lesson: Lesson = field(default_factory=Lesson)
    task: tuple[tuple[str, object], ...] = ()
    limits: tuple[tuple[str, object], ...] = ()
    number: int = 0
    """Number of the recipe among those of a model; each has its own instances."""


@dataclass(frozen=True)
class Sample:
    """A tokenised conversation, with a mask of the tokens to train on."""

    token_ids: npt.NDArray[np.int32]
    trained: npt.NDArray[np.bool_]


def demonstration_seeds(recipe: Recipe, first: int = 0) -> range:
    """Returns the instance seeds of the recipe's episodes, starting at number `first`."""
    seed = block_of(Stream.DEMONSTRATION_INSTANCES, recipe.number) + first
    return range(seed, seed + recipe.count)


def conversations(recipe: Recipe, first: int = 0) -> Iterator[list[Message]]:
    """Yields the recipe's episodes, starting at number `first`; deterministic."""
    env = make_text_env(recipe.env, task=dict(recipe.task), limits={"prompt_style": "brief", **dict(recipe.limits)})
    for episode, seed in enumerate(demonstration_seeds(recipe, first), start=first):
        yield demonstrate(env, seed, recipe.lesson, generator(Stream.DEMONSTRATION_TEACHER, recipe.number, episode))


def as_text(messages: list[Message]) -> str:
    """Returns the conversation rendered with the chat template."""
    return "".join(f"{TURN_START}{m.role}\n{m.content}{TURN_END}\n" for m in messages)


def encode(messages: list[Message], chat: ChatFormat) -> Sample:
    """Tokenises a conversation with the rollouts' chat format; every reply ends with its end-of-turn token."""
    system, first, *rest = messages
    parts = [(chat.first_prompt(system.content, first.content), False)]
    for message in rest:
        if message.role == "assistant":
            reply = chat.tokenizer.encode(message.content, add_special_tokens=False)
            parts.append(([*reply, chat.stop_token_ids[0]], message.trained))
        else:
            parts.append((chat.next_prompt(message.content, finished=True), False))
    return Sample(
        np.array([token for ids, _ in parts for token in ids], np.int32),
        np.array([is_reply for ids, is_reply in parts for _ in ids], np.bool_),
    )


def make_samples(
    recipes: Sequence[Recipe], tokenizer: PreTrainedTokenizerFast, workers: int, chunk: int = 500
) -> list[Sample]:
    """Makes the samples of all recipes, in an order that does not depend on the number of workers."""
    jobs = [
        (replace(recipe, count=min(chunk, recipe.count - start)), start)
        for recipe in recipes
        for start in range(0, recipe.count, chunk)
    ]
    work: Callable[[tuple[Recipe, int]], list[Sample]] = partial(_encode_job, tokenizer)
    with ProcessPoolExecutor(workers) as pool:
        return [sample for part in pool.map(work, jobs) for sample in part]


def _encode_job(tokenizer: PreTrainedTokenizerFast, job: tuple[Recipe, int]) -> list[Sample]:
    """Makes the samples of one job: each is cut after its last trained reply, and dropped if it has none."""
    chat = ChatFormat(tokenizer)
    samples = []
    for messages in conversations(*job):
        taught = [place for place, m in enumerate(messages) if m.role == "assistant" and m.trained]
        if taught:
            samples.append(encode(messages[: taught[-1] + 1], chat))
    return samples
