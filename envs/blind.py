"""The best plan that ignores the state: what success a policy can have that looks at nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ragen_envs.policies import Clock, Score, test_instances
from ragen_envs.splits import Split, instance_seed
from ragen_envs.task import AnyTask
from ragen_envs.text import TextLimits

Plan = tuple[int, ...]
"""Indices into the choices of TextTask.blind_choices."""
_BEAM = 24
"""Plans kept at each step of the search, whose time grows with it."""
_MAX_MOVES = 2_000_000
"""Bound on the moves that a search may try: decides on how many train instances plans are compared."""
_TRAIN_INSTANCES = (30, 200)
"""Fewest and most instances that plans are compared on: 30 tell rates that differ by a quarter, 200 by a tenth."""
_MAX_SWEEPS = 5
"""Rounds of coordinate ascent at most; it ends when one changes nothing."""


def blind_success(make: Callable[[], AnyTask], limits: TextLimits, clock: Clock) -> tuple[Score, Plan]:
    """Returns the success of a good blind plan: found on train instances, scored on test instances.

    Beam search, then single steps are changed as long as that helps; so the rate is a lower bound of the best blind
    policy's. The same for the same arguments (as long as the clock does not stop it).
    """
    task = make()
    task.reset(seed=instance_seed(Split.TRAIN, 0), options={"split": Split.TRAIN})
    budget = min(limits.max_actions, limits.max_turns * limits.max_actions_per_turn)
    choices = task.blind_choices(budget)
    moves_per_instance = _BEAM * max(choices) * len(choices) ** 2 // 2
    count = int(np.clip(_MAX_MOVES // moves_per_instance, *_TRAIN_INSTANCES))
    numbers = Clock(count, clock.seconds, at_least=30).while_it_lasts(range(count))
    train = [_started(make, instance_seed(Split.TRAIN, number)) for number in numbers]
    plan = _changed_for_the_better(train, _beam_search(train, choices), choices)
    successes = []
    for _ in test_instances(task, clock):
        successes.append(task.blind_success(plan))
    return Score.of(successes), plan


def _started(make: Callable[[], AnyTask], seed: int) -> AnyTask:
    task = make()
    task.reset(seed=seed, options={"split": Split.TRAIN})
    return task


def _rate(train: list[AnyTask], plan: Plan) -> float:
    return sum(task.blind_success(plan) for task in train) / len(train)


def _beam_search(train: list[AnyTask], choices: tuple[int, ...]) -> Plan:
    """Returns the best plan met while the _BEAM best ones are made longer step by step. Ties go to the smaller plan."""
    beam: list[Plan] = [()]
    best: tuple[float, Plan] = (0.0, ())
    for options in choices:
        longer = [(*plan, choice) for plan in beam for choice in range(options)]
        ranked = sorted((-_rate(train, plan), plan) for plan in longer)
        beam = [plan for _, plan in ranked[:_BEAM]]
        if -ranked[0][0] >= best[0]:
            best = (-ranked[0][0], ranked[0][1])
    return best[1]


def _changed_for_the_better(train: list[AnyTask], plan: Plan, choices: tuple[int, ...]) -> Plan:
    """Returns `plan` after coordinate ascent: each step in turn gets its best choice, until a sweep changes nothing."""
    rate = _rate(train, plan)
    for _ in range(_MAX_SWEEPS):
        before = plan
        for place in range(len(plan)):
            for choice in range(choices[place]):
                other = (*plan[:place], choice, *plan[place + 1 :])
                other_rate = _rate(train, other)
                if other_rate > rate:
                    plan, rate = other, other_rate
        if plan == before:
            break
    return plan
