"""Games of which one instance does what no game may; for all who play games."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from ragen_envs.games.env import GameStep, TextGameEnv
from ragen_envs.games.kuhn_poker import KuhnPoker
from ragen_envs.games.limits import GameLimits

BAD_SEED = 3
"""Modulo 8: the seeds of a run's groups are consecutive and begin at a multiple of it."""
HALF = "\ud83d"
"""Half of a surrogate pair: a str that no tokenizer and no file takes."""
NEVER = threading.Event()
"""What a hung game waits for; set it when the test is over."""
NOTHING: Any = None
"""In place of what an environment must give."""
Garble = Callable[[GameStep], Any]


def _raise(error: BaseException) -> Any:
    raise error


def _told(text: Any) -> Garble:
    return lambda step: step._replace(observations=dict.fromkeys(step.infos, text))


def _paid(reward: Any) -> Garble:
    return lambda step: step._replace(rewards=dict.fromkeys(step.infos, reward))


def _informed(**facts: Any) -> Garble:
    return lambda step: step._replace(infos={seat: {**info, **facts} for seat, info in step.infos.items()})


# What it does to a prompt or an info is seen only where a model plays: scripts look at the game itself.
SEEN_BY_MODELS: dict[str, tuple[Garble, str]] = {
    "half a character": (_told(HALF), "surrogates not allowed"),
    "bytes": (_told(b"up"), "prompted with a bytes, not with text"),
    "no prompt": (_told(None), "prompted with a NoneType, not with text"),
    "half a state": (_informed(state=HALF), "a state that is no text"),
    "no state": (_informed(state=7), "a state that is no text but int"),
    "half an outcome": (_informed(outcome=HALF), "an outcome that is no text"),
    "a stranger": (lambda step: step._replace(terminated={**step.terminated, "eve": False}), "unknown agent 'eve'"),
}
SEEN_BY_ALL: dict[str, tuple[Garble, str]] = {
    "raises": (lambda step: _raise(RuntimeError("the dice are gone")), "RuntimeError: the dice are gone"),
    "raises half a character": (lambda step: _raise(ValueError(HALF)), "ValueError: \\ud83d"),
    "exits": (lambda step: _raise(SystemExit(3)), "the environment called exit(3)"),
    "is cancelled": (lambda step: _raise(asyncio.CancelledError()), "the environment raised CancelledError"),
    "hangs": (lambda step: NEVER.wait(), "the environment took longer than 2 s"),
    "nothing": (lambda step: None, "AttributeError"),
    "a list": (lambda step: [*step], "AttributeError"),
    "reward of nan": (_paid(float("nan")), "a reward of nan"),
    "reward of inf": (_paid(float("-inf")), "a reward of -inf"),
    "reward beyond float32": (_paid(1e300), "e+300"),
    "reward of a word": (_paid("ten"), "Error"),
    "no reward": (_paid(None), "TypeError"),
    "no infos": (lambda step: step._replace(infos=NOTHING), "TypeError"),
}
GARBLES = SEEN_BY_MODELS | SEEN_BY_ALL


class SpoiltGame(TextGameEnv):
    """Kuhn poker whose bad instance garbles every step."""

    def __init__(self, garble: Garble) -> None:
        super().__init__(KuhnPoker(), GameLimits(prompt_style="brief"))
        self._garble, self._bad = garble, False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._bad = seed is not None and seed % 8 == BAD_SEED
        return super().reset(seed=seed, options=options)

    def step(self, replies: Any) -> Any:
        step = super().step(replies)
        return self._garble(step) if self._bad else step
