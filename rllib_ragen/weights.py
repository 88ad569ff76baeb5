"""Learner → runners: one blocking publication per update, with a version number.

RLlib's own `sync_weights` is fire-and-forget: it is dropped silently while a runner is still loading the last one, and
it upcasts bfloat16. Here the weights enter the object store once, whatever the number of runners, and nobody samples
until every healthy runner has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO

from rllib_ragen.learner.calls import on_first_learner
from rllib_ragen.models.sharding import gathered
from rllib_ragen.models.wire import WireState, to_wire
from rllib_ragen.weight_broadcast import Broadcast


@dataclass(frozen=True)
class Publication:
    """One policy version in the object store, for runners that come back later: the learner may be busy then."""

    version: int
    weights: Any
    """ObjectRef; None where there is no remote runner, or they got the weights by `broadcast`."""


def publish(
    learners: LearnerGroup, runners: EnvRunnerGroup, version: int, broadcast: Broadcast | None = None
) -> Publication:
    """Gives the learners' weights to every runner as policy version `version`.

    Runners that die meanwhile get them by `send` when they are restored.
    """
    local = runners.local_env_runner
    if local is not None:
        if local.config.shares_module:
            local.weights_changed(version)
        else:
            local.set_state({COMPONENT_RL_MODULE: on_first_learner(learners, _weights), WEIGHTS_SEQ_NO: version})
    remote = runners.num_remote_env_runners() > 0
    if broadcast is not None:
        broadcast.publish(learners, runners, version)
        return Publication(version, None)
    publication = Publication(version, put(learners) if remote else None)
    if remote and runners.num_healthy_remote_env_runners():
        send(publication, runners)
    return publication


def put(learners: LearnerGroup) -> Any:
    """The weights in the object store."""
    return on_first_learner(learners, _put)


def send(publication: Publication, runners: EnvRunnerGroup, runner_ids: Sequence[int] | None = None) -> None:
    """Gives a publication to the remote runners `runner_ids` (default: all healthy ones)."""
    runners.foreach_env_runner(
        "set_state",
        kwargs={"state": {COMPONENT_RL_MODULE: publication.weights, WEIGHTS_SEQ_NO: publication.version}},
        local_env_runner=False,
        remote_worker_ids=None if runner_ids is None else list(runner_ids),
    )


def _weights(learner: Any) -> dict[str, WireState]:
    """By module id: arrays that share memory with the weights."""
    plain = {m: learner.module[m].unwrapped().tensors(inference_only=True) for m in sorted(learner.module.keys())}
    return {module_id: {name: to_wire(t) for name, t in gathered(tensors)} for module_id, tensors in plain.items()}


def _put(learner: Any) -> Any:
    return ray.put(_weights(learner))
