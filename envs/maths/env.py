"""Maths: answer a problem; a wrong answer may be tried again for half the reward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

import gymnasium as gym
import numpy as np

from ragen_envs.maths.problems import MAX_ANSWER, Problem, Source, generated, read_problems
from ragen_envs.spaces import AnyText
from ragen_envs.splits import Split, draw_instance
from ragen_envs.task import FreeTextTask, check_pool_size, read_options
from ragen_envs.tree import Tree
from ragen_envs.verb_action import parse_verb

_COMMON_ANSWERS = 10
"""Most common answers among which a blind plan chooses: chosen freely, twice the five attempts of an episode."""
_LOOKED_AT = 200
"""Training problems whose answers are counted for it: as many as blind plans are compared on at most."""
_LARGEST_GUESS = 100
"""Bound of random answers, whole numbers from 0: chosen freely, two digits."""


class MathsEnv(FreeTextTask):
    """1 for a right first answer, half as much for each wrong one before; then the end.

    Args:
        generator: a generator of reasoning-gym, by its name.
        settings: settings of that generator, such as `{max_terms: 3}`.
        data: JSONL file in GSM8K's or MetaMathQA's form; takes the generator's place.
        pool_size: instances per split that seeds are mapped to (seed modulo pool_size); None: no bound.

    Raises:
        ValueError: an unknown generator, wrong settings, a broken file, or a missing package.
    """

    title: ClassVar[str] = "Maths"
    best_how: ClassVar[str] = "the answer that is known"
    default_limits: ClassVar[Mapping[str, int]] = {"max_turns": 5, "max_actions_per_turn": 1, "max_actions": 5}

    def __init__(
        self,
        generator: str = "chain_sum",
        settings: Tree | None = None,
        data: str | None = None,
        pool_size: int | None = None,
        render_mode: str | None = "ansi",
    ) -> None:
        if data is not None and settings:
            raise ValueError("settings belong to a generator and have no effect where data names a file")
        check_pool_size(pool_size)
        self.render_mode = render_mode
        self.action_space = AnyText(MAX_ANSWER + 50)
        self.observation_space = AnyText()
        self._source = _drawn_from(read_problems(data)) if data is not None else generated(generator, settings or {})
        self._pool_size = pool_size
        self._problem: Problem | None = None
        self._wrong = 0
        self._solved = False

    @property
    def problem(self) -> Problem:
        """The current problem. Raises ResetNeeded before the first reset."""
        if self._problem is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._problem

    def rules(self) -> str:
        """Returns the task in words."""
        return (
            "Solve the problem. Action: answer[result], with nothing but the result in the brackets, a number as a "
            "number. A right answer gives 1, after a wrong one half as much, and so on; after a wrong answer try again."
        )

    def describe(self) -> str:
        """Returns the problem, and how many answers were wrong."""
        wrong = f"\nWrong answers so far: {self._wrong}. Try again." if self._wrong and not self._solved else ""
        return f"{self.problem.text}{wrong}"

    def parse_action(self, text: str) -> str | None:
        """Returns the text in `answer[…]`, or None."""
        verb = parse_verb(text, ("answer",), MAX_ANSWER)
        return None if verb is None else verb[1]

    @property
    def success(self) -> bool:
        """Whether the last answer was right."""
        return self._solved

    @property
    def instance_key(self) -> str:
        """The problem's canonical text."""
        return self.problem.key

    def solve(self) -> list[str] | None:
        """Returns the known answer; None once it is given."""
        return None if self._solved else [f"answer[{self.problem.answer}]"]

    def random_action(self, rng: np.random.Generator) -> str:
        """Returns a whole number from 0 to 99."""
        return f"answer[{int(rng.integers(_LARGEST_GUESS))}]"

    def blind_choices(self, num_actions: int) -> tuple[int, ...]:
        """Returns ten choices for each attempt: one of the most common answers of training problems."""
        return (_COMMON_ANSWERS,) * min(num_actions, _COMMON_ANSWERS)

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns 1 if one of those answers is right."""
        common = _common_answers(self._source)
        return float(any(self.problem.is_right(common[place]) for place in plan if place < len(common)))

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Draws the problem that (seed, split) names; without a seed, one from `np_random`."""
        super().reset(seed=seed)
        split, _ = read_options(seed, options)
        seed = self._seed_or_draw(seed, self._pool_size)
        self._problem, self._wrong, self._solved = _problem_of(self._source, seed, split), 0, False
        return self.describe(), {"instance_key": self.instance_key}

    def step(self, action: str) -> tuple[str, float, bool, bool, Tree]:
        """Scores one answer; the right one ends the episode. Raises ResetNeeded after that."""
        if self._solved:
            raise gym.error.ResetNeeded("the problem is solved: call reset()")
        self._solved = len(action) <= MAX_ANSWER and self.problem.is_right(action)
        reward = 0.5**self._wrong if self._solved else 0.0
        self._wrong += not self._solved
        return self.describe(), reward, self._solved, False, {}


@lru_cache(maxsize=16)
def _drawn_from(problems: tuple[Problem, ...]) -> Source:
    return lambda rng: problems[int(rng.integers(len(problems)))]


@lru_cache(maxsize=16_384)
def _problem_of(source: Source, seed: int, split: Split) -> Problem:
    return draw_instance(seed, split, source, lambda problem: problem.key)


@lru_cache(maxsize=16)
def _common_answers(source: Source) -> list[str]:
    counted = Counter(_problem_of(source, seed, Split.TRAIN).answer for seed in range(_LOOKED_AT))
    return [answer for answer, _ in counted.most_common(_COMMON_ANSWERS)]
