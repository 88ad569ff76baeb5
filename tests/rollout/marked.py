"""For the tests of multi-agent rollouts: engines whose replies carry a mark, and environments that follow a story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.engines.base import Engine, EngineFailure
from rllib_ragen.types import Sampled, Sampling

Step = tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]


class Marked(Engine):
    """Answers every request with its own mark, the newest request first."""

    max_context, vocab_size = 1024, 10_000

    def __init__(self, chat: ChatFormat, mark: str, fails_on: str | None = None) -> None:
        self.chat, self.fails_on = chat, fails_on
        self.ids = [*chat.tokenizer.encode(mark, add_special_tokens=False), chat.stop_token_ids[0]]
        self.waiting: dict[int, Sequence[int]] = {}
        self.forgotten: list[int] = []

    def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        assert key not in self.waiting
        self.waiting[key] = prompt_ids

    def poll(self) -> list[tuple[int, Sampled | EngineFailure]]:
        if not self.waiting:
            return []
        key = max(self.waiting)
        prompt = self.chat.tokenizer.decode(list(self.waiting.pop(key)))
        if self.fails_on is not None and self.fails_on in prompt:
            return [(key, EngineFailure("this one fails"))]
        return [(key, Sampled(self.ids, [-0.5] * len(self.ids), True, policy_version=3))]

    def forget(self, key: int) -> None:
        self.waiting.pop(key, None)
        self.forgotten.append(key)

    def load_weights(self, named: Mapping[str, Any], version: int) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        self.waiting.clear()

    def close(self) -> None:
        self.reset()


class Story(MultiAgentEnv):
    """Says what it was told to say, whatever is replied; remembers the replies."""

    system_prompt = "rules"

    def __init__(self, first: dict[str, Any], steps: Sequence[Step], agents: Sequence[str] = ("ann", "bob")) -> None:
        super().__init__()
        self.possible_agents = list(agents)
        self.first, self.steps = first, list(steps)
        self.replies: list[dict[str, str]] = []
        self.seed: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self.seed, self.replies = seed, []
        return {name: f"{text} game {seed}" for name, text in self.first.items()}, {}

    def step(self, action_dict: dict[str, str]) -> Step:
        self.replies.append(dict(action_dict))
        return self.steps[min(len(self.replies), len(self.steps)) - 1]

    def close(self) -> None:
        """Nothing to close."""


class Tale(Story):
    """A story that remembers what it was reset with, and may say more at the opening."""

    options: Any = None
    infos: dict[str, Any]

    def __init__(self, first: dict[str, Any], *steps: Step, agents: Sequence[str] = ("ann", "bob"), **infos: Any):
        super().__init__(first, steps, agents)
        self.infos = infos

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self.options, self.seed = options, seed
        return self.first, self.infos


def told(
    prompts: dict[str, Any] | None = None,
    rewards: dict[str, float] | None = None,
    ended: Sequence[str] = (),
    cut: Sequence[str] = (),
    infos: dict[str, dict[str, Any]] | None = None,
    over: bool = False,
) -> Step:
    """One step of a story; `over` ends it for all."""
    terminated = {**dict.fromkeys(ended, True), "__all__": over}
    return prompts or {}, rewards or {}, terminated, {**dict.fromkeys(cut, True), "__all__": False}, infos or {}
