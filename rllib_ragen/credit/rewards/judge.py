"""A model as judge: an OpenAI-compatible server is shown a trajectory and replies with a number."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard

from ragen_envs.prompts import check_prompt, fill_prompt
from ragen_envs.tree import Tree
from rllib_ragen.credit.rewards.ask import RewardError
from rllib_ragen.credit.rewards.chat_client import ChatClient
from rllib_ragen.credit.rewards.judge_cache import JudgeCache
from rllib_ragen.types import Trajectory

PARTS = ("transcript", "first_prompt", "last_reply", "return", "success", "lowest", "highest")
"""Placeholders of a judge's prompt."""
_SHOWS = ("transcript", "last_reply")
PROMPT = """\
Below is what an agent was told and what it replied, turn by turn.

{transcript}

How sound is its reasoning? Reply with one number from {lowest} (worst) to {highest} (best), and with nothing else."""
"""What a judge is asked where the config says nothing else."""
BODY: Tree = {"temperature": 0.0, "max_completion_tokens": 16}
"""Fields of the request where the config says nothing else: a number is a few tokens, and the likeliest one."""
_NUMBER = re.compile(r"[-+]?[0-9]{1,9}(?:\.[0-9]{1,9})?")
_LONGEST_NUMBER = 32
"""Characters of an answer that are looked at, and shown: a number in words of its own is none."""
_THOUGHT_END = "</think>"
_INNER_SHARE = 0.9
"""Share of `timeout_s` that one question may take, retries included: less than all, so that who waits for the next
answer hears of this one's end first, and does not give up the others with it."""


class Judge:
    """Asks a model for a number about each trajectory; remembers answers, and stops asking at its budget.

    `budget_calls` counts requests, repeated ones too. Questions that were answered before are not asked again: neither
    within the run nor, with `cache`, in any other.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        budget_calls: int,
        *,
        prompt: str = "",
        cache: str | None = None,
        concurrency: int = 8,
        key_variable: str = "OPENAI_API_KEY",
        lowest: float = 0.0,
        highest: float = 10.0,
        body: Mapping[str, object] | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        """Contacts nobody and opens no file.

        Args:
            base_url: the server's, as https://api.openai.com/v1.
            model: the judge's name there.
            budget_calls: most requests of the run, ≥ 1.
            prompt: the question, with PARTS as placeholders; empty: PROMPT.
            cache: JSON-lines file of answers, also for other runs; None: they are remembered in memory.
            concurrency: requests at a time, 1 to 1,000.
            key_variable: environment variable that holds the server's key; it need not be set for a server without one.
            lowest: least number that is an answer.
            highest: greatest.
            body: further fields of the request, as the server understands them; null takes one of BODY out.
            timeout_s: longest wait for an answer.

        Raises:
            ValueError: a setting out of range; a sentence.
        """
        _check_numbers(budget_calls, concurrency, lowest, highest)
        for name, text in (("model", model), ("prompt", prompt)):
            if not isinstance(text, str) or (name == "model" and not text):
                raise ValueError(f"{name} must be a text, got {text!r}")
        try:
            check_prompt(prompt, PARTS, _SHOWS)
        except ValueError as error:
            raise ValueError(f"prompt: {error}") from None
        if not isinstance(body or {}, Mapping) or "messages" in (body or {}):
            raise ValueError(f"body must be a mapping without messages, got {body!r}")
        self._prompt, self._limits = prompt or PROMPT, (float(lowest), float(highest))
        given = {"model": model, **BODY, **(body or {})}
        self._request = {name: value for name, value in given.items() if value is not None}
        self._client = ChatClient(base_url, key_variable)
        self._cache = JudgeCache(None if cache is None else Path(cache))
        self._concurrency, self._timeout_s = concurrency, _INNER_SHARE * timeout_s
        self._budget = budget_calls
        self.calls = 0
        """Requests so far."""
        self.remembered = 0
        """Answers so far that took none."""
        self._largest, self._before = 0, 0
        self._open: dict[str, asyncio.Future[float]] = {}
        """Questions that are being asked, by key."""
        self._slots: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    async def __call__(self, trajectory: Trajectory) -> float:
        """Returns the model's number. Raises RewardError if there is none."""
        request = {**self._request, "messages": [{"role": "user", "content": self._question(trajectory)}]}
        known = [request, *self._limits]
        key = hashlib.sha256(json.dumps(known, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
        if (value := self._cache.get(key)) is not None:
            self.remembered += 1
            return value
        if key in self._open:
            self.remembered += 1
            return await asyncio.shield(self._open[key])
        self._open[key] = asyncio.ensure_future(self._asked(request))
        try:
            value = await self._open[key]
        finally:
            del self._open[key]
        self._cache.put(key, value)
        return value

    async def _asked(self, request: Tree) -> float:
        async with self._slot():
            return self._number(await self._client.reply(request, self._count, self._timeout_s))

    def _slot(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._slots is None or self._slots[0] is not loop:
            self._slots = (loop, asyncio.Semaphore(self._concurrency))
        return self._slots[1]

    def _count(self) -> None:
        """Counts a request that is about to be made. Raises RewardError if it is beyond the budget."""
        if self.calls >= self._budget:
            raise RewardError(f"may not ask any more: its budget_calls of {self._budget} are used up")
        self.calls += 1

    def _question(self, trajectory: Trajectory) -> str:
        turns = [(f"[told {k}]\n{t.prompt}", f"[reply {k}]\n{t.reply}") for k, t in enumerate(trajectory.turns, 1)]
        parts = {
            "transcript": "\n\n".join(part for turn in turns for part in turn),
            "first_prompt": trajectory.turns[0].prompt,
            "last_reply": trajectory.turns[-1].reply,
            "return": f"{trajectory.env_return:g}",
            "success": "yes" if trajectory.success else "no",
            "lowest": f"{self._limits[0]:g}",
            "highest": f"{self._limits[1]:g}",
        }
        return fill_prompt(self._prompt, parts)

    def _number(self, reply: str) -> float:
        """Returns what the reply says behind a thought: one number and nothing else. Raises RewardError."""
        said = reply.rpartition(_THOUGHT_END)[2].strip()
        lowest, highest = self._limits
        if len(said) <= _LONGEST_NUMBER and _NUMBER.fullmatch(said) and lowest <= float(said) <= highest:
            return float(said)
        shown = said if len(said) <= _LONGEST_NUMBER else f"{said[:_LONGEST_NUMBER]}…"
        raise RewardError(f"answered {shown!r}, which is no number from {lowest:g} to {highest:g}")

    # --- from batch to batch ----------------------------------------------------------------------------------------

    def end_batch(self) -> None:
        """Notes what the batch has cost."""
        self._largest, self._before = max(self._largest, self.calls - self._before), self.calls

    @property
    def stop_reason(self) -> str:
        """Why a run should end: what is left would not pay for another batch like the largest. Empty: it would."""
        left = self._budget - self.calls
        if left and left >= self._largest:
            return ""
        return (
            f"the judge has made {self.calls} of its {self._budget} calls (budget_calls), and a batch has taken up to"
            f" {self._largest}"
        )

    def state(self) -> dict[str, int]:
        """Returns how many requests were made, for a checkpoint."""
        return {"calls": self.calls, "remembered": self.remembered, "largest": self._largest}

    def restore(self, state: Mapping[str, int]) -> None:
        """Takes what `state` gave."""
        self.calls = self._before = state["calls"]
        self.remembered, self._largest = state["remembered"], state["largest"]


def _check_numbers(budget_calls: object, concurrency: object, lowest: object, highest: object) -> None:
    for name, number, least, most in (
        ("budget_calls", budget_calls, 1, 10**9),
        ("concurrency", concurrency, 1, 1_000),
    ):
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise ValueError(f"{name} must be an integer ≥ {least} and ≤ {most}, got {number!r}")
    if not (_is_number(lowest) and _is_number(highest) and lowest < highest):
        raise ValueError(f"lowest and highest must be numbers, the first below the second, got {lowest!r}, {highest!r}")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
