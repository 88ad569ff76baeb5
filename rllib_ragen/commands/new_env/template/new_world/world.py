"""The world: from one number to another with three actions. Change it piece by piece into your own."""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from ragen_envs.splits import draw_instance
from ragen_envs.task import TextTask, read_options

ACTIONS = ("Up", "Down", "Double")


class NewWorld(TextTask[int]):
    """+1 for reaching the target; every other action gives nothing.

    Args:
        largest: largest number, ≥ 8. A run's `env.task` sets it: the constructor's parameters are the settings.
        moves: an instance takes 2 to this many actions, 2 to 10.
    """

    title: ClassVar[str] = "NewWorld"

    def __init__(self, largest: int = 20, moves: int = 4) -> None:
        if largest < 8:
            raise ValueError(f"largest must be ≥ 8, got {largest}")
        if not 2 <= moves <= 10:
            raise ValueError(f"moves must be between 2 and 10, got {moves}")
        self.largest, self.moves = largest, moves
        self.action_space = gym.spaces.Discrete(len(ACTIONS))
        self.observation_space = gym.spaces.Text(200)
        self.start = self.number = self.target = 0

    def rules(self) -> str:
        """Returns the task in words. The model reads it once, as part of the system message."""
        return (
            f"Turn the number into the target. Up adds 1, Down takes 1 away, Double doubles. A result below 0 or above"
            f" {self.largest} changes nothing. Actions: {', '.join(ACTIONS)}. The target gives 1."
        )

    def describe(self) -> str:
        """Returns the state in words. The model reads it every turn."""
        return f"The number is {self.number}, the target is {self.target}"

    def legal_actions(self) -> list[str]:
        """Returns the names of the actions that can be taken now."""
        return list(ACTIONS)

    def parse_action(self, text: str) -> int | None:
        """Returns the action that a part of a reply names, or None; a model writes anything, so this never raises."""
        names = [name.lower() for name in ACTIONS]
        return names.index(text.strip().lower()) if text.strip().lower() in names else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Starts the instance that seed and split name."""
        super().reset(seed=seed)
        split, _ = read_options(seed, options)
        self.start, self.target = draw_instance(self._seed_or_draw(seed), split, self._draw, self._key)
        self.number = self.start
        return self.describe(), {}

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes one action → (state, reward, whether the task is over, False, info)."""
        self.number = self._after(self.number, action)
        return self.describe(), float(self.success), self.success, False, {}

    @property
    def success(self) -> bool:
        """Whether the target is reached."""
        return self.number == self.target

    @property
    def instance_key(self) -> str:
        """All that the instance is: equal keys are the same instance, and fall into the same split."""
        return self._key((self.start, self.target))

    def solve(self) -> list[str] | None:
        """Returns the shortest way to the target. It is optional: tests and baselines use it, training does not."""
        return self._shortest(self.number, self.target)

    def _draw(self, rng: np.random.Generator) -> tuple[int, int] | None:
        """Draws start and target, or None where they are too near or too far."""
        start, target = (int(number) for number in rng.integers(0, self.largest + 1, size=2))
        way = self._shortest(start, target)
        return (start, target) if way is not None and 2 <= len(way) <= self.moves else None

    def _key(self, instance: tuple[int, int]) -> str:
        return f"{self.largest}: {instance[0]} to {instance[1]}"

    def _after(self, number: int, action: int) -> int:
        result = {"Up": number + 1, "Down": number - 1, "Double": 2 * number}[ACTIONS[action]]
        return result if 0 <= result <= self.largest else number

    def _shortest(self, start: int, target: int) -> list[str] | None:
        """Returns the fewest actions from one number to another (breadth-first search)."""
        ways: dict[int, list[str]] = {start: []}
        waiting = deque([start])
        while waiting and target not in ways:
            number = waiting.popleft()
            for action, name in enumerate(ACTIONS):
                reached = self._after(number, action)
                if reached not in ways:
                    ways[reached] = [*ways[number], name]
                    waiting.append(reached)
        return ways.get(target)
