"""A text environment that a random byte-level model can do something about: the more digits in a reply, the better."""

from __future__ import annotations

import os
import time
from typing import Any, ClassVar

import numpy as np

from envs.task import TextTask, read_options
from envs.text import TextEnv, TextLimits


class DigitsTask(TextTask[str]):
    """Say digits. Instances are a number to be greeted with."""

    title: ClassVar[str] = "digits"

    def __init__(self) -> None:
        self.number = 0
        self.said = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        split, _ = read_options(seed, options)
        self.number = int(np.random.default_rng([seed or 0, len(split)]).integers(1000))
        self.said = 0
        return self.number, {}

    def rules(self) -> str:
        return "Say digits."

    def describe(self) -> str:
        return f"Number {self.number}"

    def parse_action(self, text: str) -> str | None:
        return None

    def legal_actions(self) -> list[str]:
        return []

    @property
    def success(self) -> bool:
        return self.said > 0

    @property
    def instance_key(self) -> str:
        return str(self.number)


class DigitsEnv(TextEnv):
    """Reward of a turn: digits in the reply ÷ 4. Two turns.

    `raise_on`: instances whose number ends in this digit raise in their second turn. `die_once`: the first process to
    find this path missing makes it and dies in the middle of an episode.
    """

    def __init__(self, raise_on: int | None = None, die_once: str = "", slow_s: float = 0.0) -> None:
        super().__init__(DigitsTask(), TextLimits(max_turns=2, prompt_style="brief"))
        self.raise_on, self.die_once, self.slow_s = raise_on, die_once, slow_s

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        assert isinstance(self.task, DigitsTask)
        if self.die_once and not os.path.exists(self.die_once):
            open(self.die_once, "w").close()
            os._exit(1)
        if self.raise_on is not None and self.turn == 2 and self.task.number % 10 == self.raise_on:
            raise RuntimeError("this instance is broken")
        time.sleep(self.slow_s)
        observation, _, terminated, truncated, info = super().step(action)
        digits = sum(letter.isdigit() for letter in action)
        self.task.said += digits
        return observation, digits / 4, terminated, truncated, {**info, "success": self.task.success}


def make_digits(context: Any) -> DigitsEnv:
    """Environment creator for `register_env`."""
    return DigitsEnv(**context)
