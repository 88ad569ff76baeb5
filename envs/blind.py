"""The best open-loop plan: the success rate that a policy can reach without looking at the state."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ragen_envs.policies import Clock, Score, test_instances
from ragen_envs.seeds import Stream, generator
from ragen_envs.splits import Split, instance_seed
from ragen_envs.task import AnyTask
from ragen_envs.text import TextLimits

Plan = tuple[int, ...]
"""Indices into the choices of TextTask.blind_choices."""
_BEAM = 24
"""Beam width: plans kept at each step of the search. Chosen freely; the search's time is proportional to it."""
_MAX_MOVES = 2_000_000
"""Bound on the moves that one search may try: chosen freely; it decides how many train instances are used."""
_TRAIN_INSTANCES = (30, 200)
"""Fewest and most instances on which plans are compared, chosen freely: a rate's standard error is at most 9 points
with 30, and 3.5 with 200 (√(¼ / n)).
"""
_MAX_SWEEPS = 5
"""Most rounds of coordinate ascent, a bound chosen freely: it usually ends earlier, when a round changes nothing."""
_DRAWN_PLANS = 1_000
"""Random plans drawn if the beam search finds no success: chosen freely, the work of ten of its steps (24 · 4 each)."""


def blind_success(make: Callable[[], AnyTask], limits: TextLimits, clock: Clock) -> tuple[Score, Plan]:
    """Returns the success of a good blind plan: found on train instances, scored on test instances.

    Beam search, then coordinate ascent over single steps; so the rate is a lower bound of the best blind
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
    plan = _changed_for_the_better(train, _beam_search(train, choices) or _best_drawn(train, choices), choices)
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
    """Returns the best plan found by beam search. Ties go to the lexicographically smaller plan.

    Empty if no plan ever succeeds, as where every instance takes many moves: prefixes cannot be ranked then.
    """
    beam: list[Plan] = [()]
    best: tuple[float, Plan] = (0.0, ())
    for options in choices:
        longer = [(*plan, choice) for plan in beam for choice in range(options)]
        ranked = sorted((-_rate(train, plan), plan) for plan in longer)
        beam = [plan for _, plan in ranked[:_BEAM]]
        if ranked[0][0] < 0 and -ranked[0][0] >= best[0]:
            best = (-ranked[0][0], ranked[0][1])
    return best[1]


def _best_drawn(train: list[AnyTask], choices: tuple[int, ...]) -> Plan:
    """Draws many plans at random and returns the best; the same for the same arguments."""
    rng = generator(Stream.BASELINE_MOVES)
    drawn = [tuple(int(rng.integers(options)) for options in choices) for _ in range(_DRAWN_PLANS)]
    return max(drawn, key=lambda plan: (_rate(train, plan), plan))


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
