"""A text environment that a random byte-level model can do something about: the more digits in a reply, the better."""

from __future__ import annotations

import ctypes
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ragen_envs.task import TextTask, read_options
from ragen_envs.text import TextEnv, TextLimits


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


@dataclass(frozen=True)
class Mishaps:
    """What goes wrong in a DigitsEnv."""

    pay: float = 0.25
    """Reward per digit."""
    raise_on: int | None = None
    """Instances whose number ends in this digit raise in their second turn."""
    broken: bool = False
    """Every step raises."""
    die_once: str = ""
    """The first process to find this path missing makes it, and dies in the middle of an episode."""
    die_always: bool = False
    """Every process dies in its first step."""
    freeze_once: str = ""
    """The first process to find this path missing makes it, and freezes as a whole: native code keeps the
    interpreter's lock."""
    leak_mib: int = 0
    """Every step keeps so much memory for ever."""
    limit_mib: int = 0
    """Address space that a process may have beyond what it had at its first step; 0: no limit."""


class DigitsEnv(TextEnv):
    """Two turns; a turn's reward is the number of digits in the reply times `pay`."""

    def __init__(self, **mishaps: Any) -> None:
        super().__init__(DigitsTask(), TextLimits(max_turns=2, prompt_style="brief"))
        self.mishaps = Mishaps(**mishaps)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """As TextEnv, with the mishaps."""
        assert isinstance(self.task, DigitsTask)
        mishaps = self.mishaps
        if mishaps.die_always:
            os._exit(1)
        if mishaps.freeze_once and not Path(mishaps.freeze_once).exists():
            Path(mishaps.freeze_once).touch()
            ctypes.PyDLL(None).sleep(3600)
        if mishaps.leak_mib:
            leak(mishaps.leak_mib, mishaps.limit_mib)
        if mishaps.die_once and not Path(mishaps.die_once).exists():
            Path(mishaps.die_once).touch()
            os._exit(1)
        if mishaps.broken or (self.turn == 2 and self.task.number % 10 == mishaps.raise_on):
            raise RuntimeError("this instance is broken")
        observation, _, terminated, truncated, info = super().step(action)
        digits = sum(letter in "0123456789" for letter in action)
        self.task.said += digits
        return observation, digits * mishaps.pay, terminated, truncated, {**info, "success": self.task.success}


_leaked: list[bytes] = []


def leak(mib: int, limit_mib: int) -> None:
    """Keeps `mib`, or raises MemoryError."""
    if limit_mib and not _leaked:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (limit_mib << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    _leaked.append(b"x" * (mib << 20))


def make_digits(context: Any) -> DigitsEnv:
    """Environment creator for `register_env`."""
    return DigitsEnv(**context)
