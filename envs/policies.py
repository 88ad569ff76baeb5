"""Success rates of the random policy and of the best possible one, over a task's test instances."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ragen_envs.seeds import Stream, generator, seed_of
from ragen_envs.splits import Split, distinct_numbers, instance_seed
from ragen_envs.task import AnyTask
from ragen_envs.text import TextLimits


@dataclass(frozen=True)
class Clock:
    """A bound on the instances to play: `count`, or fewer (at least `at_least`) once `seconds` have passed."""

    count: int
    seconds: float | None = None
    at_least: int = 40

    def while_it_lasts(self, numbers: Iterable[int]) -> Iterator[int]:
        """Yields from `numbers` while count and time last."""
        end = None if self.seconds is None else time.monotonic() + self.seconds
        for looked_at, number in enumerate(islice(numbers, self.count)):
            if end is not None and looked_at >= self.at_least and time.monotonic() > end:
                return
            yield number


def test_instances(task: AnyTask, clock: Clock) -> Iterator[int]:
    """Yields the numbers of the different test instances that an evaluation plays, and resets `task` to each."""

    def key_of(number: int) -> str:
        task.reset(seed=instance_seed(Split.TEST, number), options={"split": Split.TEST})
        return task.instance_key

    return clock.while_it_lasts(distinct_numbers(key_of))


@dataclass(frozen=True)
class Score:
    """A success rate in [0, 1], its standard error over instances, and how many there were."""

    rate: float
    error: float
    instances: int

    @classmethod
    def of(cls, successes: list[float]) -> Score:
        """Returns the mean over instances and its standard error."""
        values = np.asarray(successes, np.float64)
        return cls(float(values.mean()), float(values.std() / np.sqrt(len(values))), len(values))


def random_success(task: AnyTask, limits: TextLimits, clock: Clock, plays: int = 16) -> Score:
    """Measures random play: each turn 1…max_actions_per_turn valid actions, their number and kinds uniformly at random.

    Every test instance is played `plays` times, each time with another outcome seed.
    """
    successes = []
    for number in test_instances(task, clock):
        won = 0
        for play in range(plays):
            outcome_seed = seed_of(Stream.BASELINE_OUTCOME, number, play)
            options = {"split": Split.TEST, "outcome_seed": outcome_seed}
            task.reset(seed=instance_seed(Split.TEST, number), options=options)
            won += _plays_at_random(task, limits, generator(Stream.BASELINE_MOVES, number, play))
        successes.append(won / plays)
    return Score.of(successes)


def _plays_at_random(task: AnyTask, limits: TextLimits, rng: np.random.Generator) -> bool:
    left = limits.max_actions
    for _ in range(limits.max_turns):
        size = min(int(rng.integers(1, limits.max_actions_per_turn + 1)), left)
        for _ in range(size):
            _, _, terminated, _, _ = task.step(task.parse_action(task.random_action(rng)))
            if terminated:
                return task.success
        left -= size
        if left == 0:
            break
    return task.success


def best_success(task: AnyTask, limits: TextLimits, clock: Clock) -> Score:
    """Computes the best possible success rate under the caps, on test instances; see the task's `best_how`."""
    caps = (limits.max_turns, limits.max_actions_per_turn, limits.max_actions)
    successes = []
    for _ in test_instances(task, clock):
        successes.append(task.best_success(*caps))
    return Score.of(successes)
