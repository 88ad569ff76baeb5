"""Environments that answer with garbage, exit, or cannot be played at all: each costs its own episode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.types import StopReason
from tests.rollout.build import make_model
from tests.rollout.test_collect import BAD_SEED, Sokoban, assert_only_the_bad_one_failed, fresh_counters, play

__all__ = ["fresh_counters"]


class Untold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _raise(error: BaseException) -> Any:
    raise error


Answer = Callable[[tuple[Any, ...]], Any]
GARBAGE: dict[str, tuple[Answer, str]] = {
    "nothing": (lambda answer: None, "TypeError"),
    "too few": (lambda answer: answer[:3], "ValueError"),
    "no message": (lambda answer: (None, *answer[1:]), "a message that is no text but NoneType"),
    "bytes": (lambda answer: (b"up", *answer[1:]), "a message that is no text but bytes"),
    "half a character": (lambda answer: ("\ud83d", *answer[1:]), "surrogates not allowed"),
    "no reward": (lambda answer: (answer[0], None, *answer[2:]), "TypeError"),
    "reward of nan": (lambda answer: (answer[0], float("nan"), *answer[2:]), "a reward of nan"),
    "reward of inf": (lambda answer: (answer[0], float("inf"), *answer[2:]), "a reward of inf"),
    "no info": (lambda answer: (*answer[:4], {}), "KeyError"),
    "another end": (lambda answer: (*answer[:2], True, False, {**answer[4], "stop_reason": "tired"}), "'tired'"),
    "reward beyond float32": (lambda answer: (answer[0], 1e300, *answer[2:]), "a reward of 1e+300"),
    "half a state": (lambda answer: (*answer[:4], {**answer[4], "state": "\ud83d"}), "a state that is no text"),
    "half an action": (lambda answer: (*answer[:4], {**answer[4], "actions": ["\udc80"]}), "an action that is no text"),
    "an end of ours": (
        lambda answer: (*answer[:2], True, False, {**answer[4], "stop_reason": "env_error"}),
        "allowed: goal",
    ),
    "an error of half a character": (lambda answer: _raise(ValueError("\ud83d")), "ValueError: \\ud83d"),
    "an error that cannot be told": (lambda answer: _raise(Untold()), "Untold: (its message cannot be shown)"),
    "an error like a book": (lambda answer: _raise(ValueError("a" * 10**7)), "ValueError: aaa"),
    "a cancelled task": (lambda answer: _raise(asyncio.CancelledError()), "the environment raised CancelledError"),
    "no state": (lambda answer: (*answer[:4], {**answer[4], "state": 7}), "a state that is no text but int"),
}


def spoilt(garble: Answer) -> type[Sokoban]:
    """Environments of which the bad instance answers with garbage."""

    class Spoilt(Sokoban):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            self.bad = seed == BAD_SEED
            return super().reset(seed=seed, options=options)

        def step(self, action: str) -> Any:
            answer = super().step(action)
            return garble(answer) if self.bad else answer

    return Spoilt


@pytest.mark.parametrize("name", GARBAGE)
def test_L1_garbage_from_an_environment_ends_its_own_episode(chat: ChatFormat, name: str) -> None:
    garble, sentence = GARBAGE[name]
    trajectories = play(HFEngine(make_model(), max_context=1024, max_rows=16), chat, spoilt(garble), env_timeout_s=30.0)
    failed = assert_only_the_bad_one_failed(trajectories, StopReason.ENV_ERROR)
    assert sentence in failed.error and len(failed.error.encode()) < 2_000


@pytest.mark.parametrize("threaded", [False, True])
def test_L1_an_environment_that_exits_ends_its_own_episode(chat: ChatFormat, threaded: bool) -> None:
    def leave(answer: tuple[Any, ...]) -> Any:
        raise SystemExit(3)

    engine = HFEngine(make_model(), max_context=1024, max_rows=16)
    trajectories = play(engine, chat, spoilt(leave), env_timeout_s=30.0 if threaded else None)
    failed = assert_only_the_bad_one_failed(trajectories, StopReason.ENV_ERROR)
    assert failed.error == "RuntimeError: the environment called exit(3)"


def test_L5_a_message_as_long_as_a_book_ends_its_episode_as_context_full(chat: ChatFormat) -> None:
    engine = HFEngine(make_model(), max_context=1024, max_rows=16)
    trajectories = play(engine, chat, spoilt(lambda answer: ("wall " * 200_000, *answer[1:2], False, False, answer[4])))
    assert trajectories[BAD_SEED].stop_reason is StopReason.CONTEXT_FULL
