"""Calls to learners that raise errors, which RLlib returns as results, easy to overlook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import ray
from ray.exceptions import RayActorError, RayError
from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_ragen.faults.exit_codes import WorkersLost
from rllib_ragen.faults.heartbeat import heartbeat_of, own
from rllib_ragen.faults.private_names.of_ray import actor_key, actor_manager
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.learner.learner import StarPOLearner

Answer = TypeVar("Answer")
_PING_S = 10.0
"""Longest wait in seconds for an answer of an actor that may be dead: chosen freely; a busy one may not answer."""


def on_every_learner(
    learners: LearnerGroup, function: Callable[[StarPOLearner], Answer], what: str = "a call"
) -> list[Answer]:
    """Calls `function` on every learner → the results, by index. Raises what any of them raised.

    Raises:
        WorkersLost: a learner died.
    """
    with at_work(learners, what):
        return _values(learners.foreach_learner(function))


def on_first_learner(
    learners: LearnerGroup, function: Callable[[StarPOLearner], Answer], what: str = "a call"
) -> Answer:
    """Calls `function` on the first learner → the result: all have the same weights. Raises what it raised.

    If the weights are sharded all learners run it, because gathering them is a collective call.

    Raises:
        WorkersLost: the learner died.
    """
    if not learners.is_local and learners.config.sharding == "fsdp2":
        return cast(Answer, on_every_learner(learners, lambda one: _if_first(one, function(one)), what)[0])
    ids = None if learners.is_local else [actor_manager(learners).actor_ids()[0]]
    with at_work(learners, what):
        first: Answer = _values(learners.foreach_learner(function, remote_actor_ids=ids))[0]
    return first


@contextmanager
def at_work(learners: LearnerGroup, what: str) -> Iterator[None]:
    """Reports a wait for the learners to the watchdog, around calls to them.

    Raises:
        WorkersLost: a learner died meanwhile. The others cannot continue either: each has a part of every sum.
    """
    actors = {} if learners.is_local else actor_manager(learners).actors()

    def pulses() -> object:
        return [heartbeat_of(actor_key(actor)) for actor in actors.values()] if actors else own()

    with waiting(f"{what} of {len(actors)} learner(s)" if actors else f"{what} of the learner", pulses):
        try:
            yield
        except RayError as error:
            dead = [number for number, actor in actors.items() if _is_dead(actor)]
            if not dead:
                raise
            raise WorkersLost(f"learner {dead[0]} of {len(actors)} died during {what}; see its log") from error


def _is_dead(actor: Any) -> bool:
    try:
        ray.get(actor.__ray_ready__.remote(), timeout=_PING_S)
    except RayActorError:
        return True
    except RayError:
        # Busy, or waiting for the dead one.
        return False
    return False


def _if_first(learner: StarPOLearner, value: Answer) -> Answer | None:
    return value if learner.index == 0 else None


def _values(results: Any) -> list[Any]:
    values = []
    for result in results:
        value = result.get()
        if not result.ok:
            raise value
        values.append(value)
    return values
