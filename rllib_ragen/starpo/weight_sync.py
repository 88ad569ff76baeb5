"""Learner → runners: one blocking weight sync per update, with a version number.

RLlib's own `sync_weights` is fire-and-forget: it is dropped silently while a runner is still loading the last one, and
it upcasts bfloat16. Here the weights enter the object store once, whatever the number of runners, and nobody samples
until every healthy runner has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import ray
import torch
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO

from ragen_envs.tree import Tree
from rllib_ragen.faults.exit_codes import NotFinite
from rllib_ragen.faults.private_names.of_ray import actor_manager
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.learner_calls import on_every_learner, on_first_learner
from rllib_ragen.models.fsdp import gathered
from rllib_ragen.models.weight_arrays import WeightState, to_array
from rllib_ragen.rollout.runner_pool import RunnerFailures, restart_late
from rllib_ragen.starpo.weight_broadcast import Broadcast


@dataclass(frozen=True)
class WeightSnapshot:
    """A policy version in the object store, for runners that return while the learner is busy."""

    version: int
    weights: Tree | None
    """ObjectRefs by policy; None without remote runners, or if they got the weights by `broadcast`."""
    failures: RunnerFailures = field(default_factory=RunnerFailures)
    """Runners that did not load it."""


def sync_weights(
    learners: LearnerGroup,
    runners: EnvRunnerGroup,
    version: int,
    timeout_s: float,
    broadcast: Broadcast | None = None,
    keep: bool = False,
) -> WeightSnapshot:
    """Sends the learners' weights to every runner as policy version `version`.

    Runners that die meanwhile get them by `send` when they are restored; one that takes longer than `timeout_s` is
    restarted. `keep`: also after a broadcast the weights are put into the object store, because a runner may be
    restored while the learners already change them.

    Raises:
        NotFinite: a weight is not finite; no runner gets it.
    """
    broken = [name for name in on_every_learner(learners, _not_finite, "a check of the weights") if name]
    if broken:
        raise NotFinite(f"the weight {broken[0]} of policy version {version} holds numbers that are not finite")
    local = runners.local_env_runner
    if local is not None:
        if local.config.shares_module:
            local.weights_changed(version)
        else:
            weights = on_first_learner(learners, _weights, "a copy of the weights")
            local.set_state({COMPONENT_RL_MODULE: weights, WEIGHTS_SEQ_NO: version})
    remote = runners.num_remote_env_runners() > 0
    snapshot = WeightSnapshot(version, put(learners) if remote and (broadcast is None or keep) else None)
    failures = RunnerFailures()
    if broadcast is not None:
        failures = broadcast.sync_weights(learners, runners, version)
    elif remote and runners.num_healthy_remote_env_runners():
        failures = send(snapshot, runners, runners.healthy_env_runner_ids(), timeout_s)
    return replace(snapshot, failures=failures)


def put(learners: LearnerGroup) -> Tree:
    """Puts each policy's weights into the object store → ObjectRefs by policy; an unchanged policy keeps its old
    one.
    """
    refs: Tree = on_first_learner(learners, _put, "a copy of the weights")
    return refs


def send(
    snapshot: WeightSnapshot, runners: EnvRunnerGroup, runner_ids: Sequence[int], timeout_s: float
) -> RunnerFailures:
    """Sends a snapshot to the remote runners `runner_ids`, and restarts those that have not loaded it in
    `timeout_s`.
    """
    with waiting(f"weights to {len(runner_ids)} env runner(s)", may_hang=False):
        results = actor_manager(runners).foreach_actor(
            "set_state",
            kwargs={"state": {COMPONENT_RL_MODULE: snapshot.weights, WEIGHTS_SEQ_NO: snapshot.version}},
            remote_actor_ids=list(runner_ids),
            timeout_seconds=timeout_s,
        )
    return restart_late(runners, runner_ids, results, timeout_s)


def _not_finite(learner: StarPOLearner) -> str:
    """Returns the name of the first weight (sharded: of this learner's part) that is not finite; empty if all are."""
    for module_id in sorted(learner.module.keys()):
        for name, parameter in learner.module[module_id].unwrapped().named_parameters():
            own = parameter.to_local() if hasattr(parameter, "to_local") else parameter
            if not bool(torch.isfinite(own).all()):
                return str(name)
    return ""


def _weights(learner: StarPOLearner) -> dict[str, WeightState]:
    """Returns the weights by policy."""
    return {module_id: _weights_of(learner, module_id) for module_id in sorted(learner.module.keys())}


def _weights_of(learner: StarPOLearner, module_id: str) -> WeightState:
    """Returns arrays that share memory with the weights, of a plain model or of the adapters only."""
    whole = learner.config.weight_transfer != "adapters"
    tensors = learner.module[module_id].unwrapped().tensors(inference_only=whole)
    return {name: to_array(tensor) for name, tensor in gathered(tensors)}


def _put(learner: StarPOLearner) -> Tree:
    refs = {}
    for module_id in sorted(learner.module.keys()):
        kept = learner.frozen_in_store.get(module_id)
        refs[module_id] = ray.put(_weights_of(learner, module_id)) if kept is None else kept
        if not learner.should_module_be_updated(module_id):
            learner.frozen_in_store[module_id] = refs[module_id]
    return refs
