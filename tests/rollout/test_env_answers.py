"""What environments say, made safe, by hand."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from rllib_ragen.rollout.env_answers import BadAnswer, end_of, error_text, reward_of, text_of
from rllib_ragen.types import StopReason

LARGEST = float(np.finfo(np.float32).max)


def test_text_is_text() -> None:
    assert text_of("größer\n", "a message") == "größer\n"
    assert text_of("", "a message") == ""
    for value, said in ((None, "NoneType"), (b"up", "bytes"), (3, "int")):
        with pytest.raises(BadAnswer, match=f"^the environment gave a message that is no text but {said}$"):
            text_of(value, "a message")
    with pytest.raises(BadAnswer, match=r"gave a state that is no text: .*surrogates not allowed"):
        text_of("\ud83d", "a state")


@pytest.mark.parametrize("reward", [0, -0.25, True, "1.5", np.float32(3), LARGEST, -LARGEST])
def test_a_reward_is_a_number_that_float32_holds(reward: Any) -> None:
    assert reward_of(reward) == float(reward) and type(reward_of(reward)) is float


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), float("-inf"), 2 * LARGEST, -2 * LARGEST])
def test_a_reward_is_finite(reward: float) -> None:
    with pytest.raises(BadAnswer, match=f"^the environment gave a reward of {re.escape(str(reward))}$"):
        reward_of(reward)
    with pytest.raises(BadAnswer, match=r"^ann got a reward of"):
        reward_of(reward, "ann got")


def test_an_environment_tells_its_own_ends_and_none_of_ours() -> None:
    for own in ("goal", "failed", "max_turns", "max_actions"):
        assert end_of(own) is StopReason(own)
    for reason in ("context_full", "env_error", "engine_error", "tired", None, 3):
        with pytest.raises(BadAnswer, match="allowed: goal, failed, max_turns, max_actions"):
            end_of(reason)


def test_an_error_has_its_name_unless_it_says_all_by_itself() -> None:
    assert error_text(ValueError("no door")) == "ValueError: no door"
    assert error_text(BadAnswer("the environment gave up")) == "the environment gave up"


def test_an_error_can_always_be_written() -> None:
    class Untold(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert error_text(Untold()) == "Untold: (its message cannot be shown)"
    assert error_text(ValueError("\ud83d")) == "ValueError: \\ud83d"
    assert error_text(ValueError("a" * 2000)) == f"ValueError: {'a' * 988}"
