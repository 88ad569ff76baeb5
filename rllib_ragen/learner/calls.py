"""Calls to learners whose errors are raised: RLlib hands them back as results, to be overlooked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray.rllib.core.learner.learner_group import LearnerGroup


def on_every_learner(learners: LearnerGroup, function: Callable[[Any], Any]) -> list[Any]:
    """`function(learner)` of every learner, in order of their index. Raises what any of them raised."""
    return _values(learners.foreach_learner(function))


def on_first_learner(learners: LearnerGroup, function: Callable[[Any], Any]) -> Any:
    """`function(learner)` of the first learner: all have the same weights. Raises what it raised.

    Where weights are sharded all learners run it, because to gather them is a collective call.
    """
    if not learners.is_local and learners.config.sharding == "fsdp2":
        return on_every_learner(learners, lambda learner: _if_first(learner, function(learner)))[0]
    ids = None if learners.is_local else [learners._worker_manager.actor_ids()[0]]
    return _values(learners.foreach_learner(function, remote_actor_ids=ids))[0]


def _if_first(learner: Any, value: Any) -> Any:
    return value if learner._learner_index == 0 else None


def _values(results: Any) -> list[Any]:
    values = []
    for result in results:
        value = result.get()
        if not result.ok:
            raise value
        values.append(value)
    return values
