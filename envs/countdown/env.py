"""Countdown: reach a target with every number used once and + − × ÷."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import gymnasium as gym
import numpy as np

from ragen_envs.countdown.expression import parse_expression
from ragen_envs.countdown.puzzle import (
    Puzzle,
    fill_template,
    generate_puzzle,
    random_expression,
    solve_puzzle,
    template_choices,
)
from ragen_envs.spaces import MAX_STATE, AnyText
from ragen_envs.splits import Split, draw_instance
from ragen_envs.task import FreeTextTask, check_pool_size, read_options
from ragen_envs.tree import Tree

_RIGHT_REWARD = 1.0
"""Reward of an expression that reaches the target."""
_RIGHT_NUMBERS_REWARD = 0.1
"""Reward of one that uses the right numbers but misses the target: RAGEN's partial credit, a tenth of the goal's."""


class CountdownEnv(FreeTextTask):
    """One attempt: 1.0 for the target, 0.1 for the right numbers with a wrong value, else 0; then the end.

    The action is free text, an arithmetic expression. Text that is none is no action at all (no attempt is used).

    Args:
        num_numbers: numbers of a puzzle, 2…5.
        max_number: numbers are drawn from 1…max_number.
        max_target: targets lie in 1…max_target and are never one of the numbers.
        pool_size: instances per split that seeds are mapped to (seed modulo pool_size); None: no bound.

    Raises:
        ValueError: a setting out of its range.
    """

    title: ClassVar[str] = "Countdown"
    best_how: ClassVar[str] = "brute force over all expressions"

    def __init__(
        self,
        num_numbers: int = 3,
        max_number: int = 20,
        max_target: int = 99,
        pool_size: int | None = None,
        render_mode: str | None = "ansi",
    ) -> None:
        if not 2 <= num_numbers <= 5:
            raise ValueError(f"num_numbers must be 2…5, got {num_numbers}")
        if max_number < 2 or max_target < 2:
            raise ValueError(f"max_number and max_target must be ≥ 2, got {max_number}, {max_target}")
        check_pool_size(pool_size)
        self.render_mode = render_mode
        self.action_space = AnyText(200)
        self.observation_space = AnyText(MAX_STATE)
        self._shape = (num_numbers, max_number, max_target)
        self._pool_size = pool_size
        self._puzzle: Puzzle | None = None
        self._attempt: str | None = None
        self._solved = False

    @property
    def puzzle(self) -> Puzzle:
        """The current puzzle. Raises ResetNeeded before the first reset."""
        if self._puzzle is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._puzzle

    def rules(self) -> str:
        """Returns the task in words."""
        return (
            "Reach the target with an arithmetic expression that uses each number exactly once, with + - * / and "
            "parentheses. You have one attempt. Action: the expression alone, without an equals sign. "
            f"The target gives {_RIGHT_REWARD:g}, the right numbers with a wrong value {_RIGHT_NUMBERS_REWARD:g}, "
            "anything else 0."
        )

    def describe(self) -> str:
        """Returns numbers and target; after the attempt also the attempt."""
        lines = [f"Numbers {' '.join(map(str, self.puzzle.numbers))}", f"Target {self.puzzle.target}"]
        return "\n".join(lines if self._attempt is None else [*lines, f"Tried {self._attempt}"])

    def parse_action(self, text: str) -> str | None:
        """Returns the text, spaces made even, if it is an arithmetic expression; `step` decides what it is worth."""
        return None if parse_expression(text) is None else " ".join(text.split())

    @property
    def success(self) -> bool:
        """Whether the attempt reached the target."""
        return self._solved

    @property
    def instance_key(self) -> str:
        """Numbers in order of size, and the target."""
        return self.puzzle.key

    def solve(self) -> list[str] | None:
        """Returns one expression, tokens separated by spaces; None after the attempt."""
        solution = solve_puzzle(self.puzzle) if self._attempt is None else None
        return None if solution is None else [solution]

    def random_action(self, rng: np.random.Generator) -> str:
        """Returns an expression that uses every number once, joined in random order by random operations."""
        return random_expression(rng, self.puzzle.numbers)[1]

    def blind_choices(self, num_actions: int) -> tuple[int, ...]:
        """Returns the number of choices at each join of a template such as first · second + third."""
        return template_choices(len(self.puzzle.numbers))

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns 1 if the template `plan`, filled with the numbers as shown, reaches the target."""
        return float(fill_template(self.puzzle.numbers, plan) == self.puzzle.target)

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Draws the puzzle that (seed, split) names; without a seed, one from `np_random`."""
        super().reset(seed=seed)
        split, _ = read_options(seed, options)
        seed = self._seed_or_draw(seed, self._pool_size)
        self._puzzle, self._attempt, self._solved = _puzzle_of(seed, split, *self._shape), None, False
        return self.describe(), {"instance_key": self.instance_key}

    def step(self, action: str) -> tuple[str, float, bool, bool, Tree]:
        """Scores the attempt and ends the episode; any string is allowed, and one that is no expression scores 0.

        Raises:
            ResetNeeded: the attempt is made.
        """
        if self._attempt is not None:
            raise gym.error.ResetNeeded("the attempt is made: call reset()")
        self._attempt = action
        expression = parse_expression(action)
        right_numbers = expression is not None and expression.numbers == tuple(sorted(self.puzzle.numbers))
        self._solved = expression is not None and right_numbers and expression.value == self.puzzle.target
        wrong_value_reward = _RIGHT_NUMBERS_REWARD if right_numbers else 0.0
        return self.describe(), _RIGHT_REWARD if self._solved else wrong_value_reward, True, False, {}


@lru_cache(maxsize=16_384)
def _puzzle_of(seed: int, split: Split, num_numbers: int, max_number: int, max_target: int) -> Puzzle:
    return draw_instance(
        seed, split, lambda rng: generate_puzzle(rng, num_numbers, max_number, max_target), lambda puzzle: puzzle.key
    )
