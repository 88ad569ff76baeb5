"""Bandit: one choice between a safe arm and a risky one, which differ only in the meaning of their names."""

from __future__ import annotations

from typing import ClassVar

import gymnasium as gym
import numpy as np

from ragen_envs.bandit.arm_names import PAIRS
from ragen_envs.spaces import MAX_STATE, AnyText
from ragen_envs.task import TextTask, chance_seed, read_options
from ragen_envs.tree import Tree


class BanditEnv(TextTask[int]):
    """One action, then the end: the low arm pays little for certain, the high arm pays much but seldom.

    An instance is a pair of names and the order in which they are shown: 24 train, 8 val and 8 test instances,
    disjoint by pair. Success is the choice of the high arm, whatever it pays.

    `reversed=True` tests whether a policy reasons or has only learnt how names sound: the safe-sounding name is the
    high arm, and the state says that names mean their opposite. A policy that picks what sounds risky, right in the
    plain variant, is always wrong in this one; one that reads the sentence is right in both.

    Args:
        low_reward: what the low arm pays (the paper's first version: 0.15).
        high_reward: what the high arm pays when it pays.
        high_probability: chance of that; else it pays 0.
        reversed: names mean their opposite.

    Raises:
        ValueError: a probability outside [0, 1].
    """

    title: ClassVar[str] = "Bandit"

    def __init__(
        self,
        low_reward: float = 0.1,
        high_reward: float = 1.0,
        high_probability: float = 0.25,
        reversed: bool = False,
        render_mode: str | None = "ansi",
    ) -> None:
        if not 0 <= high_probability <= 1:
            raise ValueError(f"high_probability must be in [0, 1], got {high_probability}")
        self.low_reward = low_reward
        self.high_reward = high_reward
        self.high_probability = high_probability
        self.reversed = reversed
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(2)
        self.observation_space = AnyText(MAX_STATE)
        self._arms: tuple[str, ...] = ()
        self._high = 0
        self._chosen: int | None = None
        self._outcome_rng = np.random.default_rng(0)

    @property
    def arms(self) -> tuple[str, ...]:
        """The two names in the order shown. Raises ResetNeeded before the first reset."""
        if not self._arms:
            raise gym.error.ResetNeeded("call reset() first")
        return self._arms

    def rules(self) -> str:
        """Returns the task in words."""
        meaning = "the opposite of what its name suggests" if self.reversed else "what its name suggests"
        return (
            "Choose one of two arms, once. One is low-risk: it pays a little for certain. The other is high-risk: it "
            "pays a lot, but seldom, and more on average. "
            f"An arm is {meaning}. Find the high-risk arm. Actions: the name of an arm."
        )

    def describe(self) -> str:
        """Returns the two names; in the reversed variant also that they mean their opposite."""
        lines = [f"Arms {', '.join(self.arms)}"]
        if self.reversed:
            lines.append("Names mean their opposite")
        if self._chosen is not None:
            lines.append(f"Chosen {self.arms[self._chosen]}")
        return "\n".join(lines)

    def parse_action(self, text: str) -> int | None:
        """Returns the index of the arm named `text` (case-insensitively), or None."""
        names = [name.lower() for name in self.arms]
        name = text.strip().lower()
        return names.index(name) if name in names else None

    def legal_actions(self) -> list[str]:
        """Returns both names, in the order shown."""
        return list(self.arms)

    @property
    def success(self) -> bool:
        """Whether the high arm was chosen."""
        return self._chosen is not None and self._chosen == self._high

    @property
    def instance_key(self) -> str:
        """The names in the order shown."""
        return ", ".join(self.arms)

    def solve(self) -> list[str] | None:
        """Returns the high arm's name; None after the choice."""
        return [self.arms[self._high]] if self._chosen is None else None

    def blind_choices(self, num_actions: int) -> tuple[int, ...]:
        """Returns the number of arms: a blind plan is one choice between the first and the second."""
        return (len(self.arms),)

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns 1 if arm `plan[0]` is the high arm, else 0."""
        return float(plan[:1] == (self._high,))

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Draws the pair and order that (seed, split) names; `outcome_seed` decides the pay-out.

        Raises:
            ValueError: a negative seed, an unknown option or split.
        """
        super().reset(seed=seed)
        split, outcome_seed = read_options(seed, options)
        seed = self._seed_or_draw(seed)
        outcome_seed = self._seed_or_draw(outcome_seed)
        draw = np.random.default_rng(seed)
        pair = PAIRS[split][int(draw.integers(len(PAIRS[split])))]
        swapped = bool(draw.integers(2))
        self._arms = pair[::-1] if swapped else pair
        risky = 0 if swapped else 1
        self._high = 1 - risky if self.reversed else risky
        self._chosen = None
        self._outcome_rng = np.random.default_rng(chance_seed(outcome_seed))
        return self.describe(), {"instance_key": self.instance_key}

    def step(self, action: int) -> tuple[str, float, bool, bool, Tree]:
        """Pulls an arm and ends.

        Raises:
            ValueError: an action outside 0…1.
            ResetNeeded: the choice is made.
        """
        if int(action) not in (0, 1):
            raise ValueError(f"action must be 0 or 1 ({', '.join(self.arms)}), got {action}")
        if self._chosen is not None:
            raise gym.error.ResetNeeded("the arm is chosen: call reset()")
        self._chosen = int(action)
        pays = self._outcome_rng.random() < self.high_probability
        reward = (self.high_reward if pays else 0.0) if self.success else self.low_reward
        return self.describe(), float(reward), True, False, {}
