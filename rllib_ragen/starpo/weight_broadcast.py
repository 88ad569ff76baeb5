"""First learner → all vLLM engines at once, through a process group: NCCL between GPUs, gloo between CPUs."""

from __future__ import annotations

import logging

import ray
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from torch import Tensor

from rllib_ragen.faults.private_names.of_ray import actor_manager
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.learner_calls import on_first_learner
from rllib_ragen.models.llm_module import lm_weights
from rllib_ragen.models.weight_channel import Backend, Rendezvous, Sender, TensorSpec, specs_of
from rllib_ragen.rollout.runner_pool import RunnerFailures, restart_late
from rllib_ragen.starpo.background import Background

logger = logging.getLogger(__name__)


class Broadcast:
    """The weight channel, which is reopened whenever the set of healthy runners changes."""

    def __init__(self, backend: Backend, workers_per_engine: int, timeout_s: float) -> None:
        """`timeout_s`: longest wait for a member, to join or to answer."""
        self._backend = backend
        self._workers = workers_per_engine
        self._timeout_s = timeout_s
        self._members: list[int] = []
        self._meeting: Rendezvous | None = None
        self._specs: list[TensorSpec] = []

    def sync_weights(self, learners: LearnerGroup, runners: EnvRunnerGroup, version: int) -> RunnerFailures:
        """Broadcasts the weights to every healthy runner as policy version `version`.

        A runner that dies meanwhile breaks the channel for all: their engines are restarted, and get the weights from
        the object store (`weight_sync.send`), as any restarted runner does.

        Returns:
            The runners that died, hung, or lost their engines with the channel.
        """
        members = list(runners.healthy_env_runner_ids())
        if not members:
            return RunnerFailures()
        if self._meeting is None or members != self._members:
            self._open(learners, members)
        sending = Background(lambda: on_first_learner(learners, _send))
        results = actor_manager(runners).foreach_actor(
            func=["receive_weights"] * len(members),
            kwargs=[
                {
                    "meeting": self._meeting,
                    "first_rank": 1 + k * self._workers,
                    "specs": self._specs,
                    "version": version,
                }
                for k in range(len(members))
            ],
            remote_actor_ids=members,
            timeout_seconds=2 * self._timeout_s,
        )
        losses = restart_late(runners, members, results, 2 * self._timeout_s)
        lost = len(members) - len(list(results.ignore_errors()))
        error = _error(sending)
        if lost or error:
            self._meeting = None
            logger.warning("The channel for weights broke (%d of %d runners lost). %s", lost, len(members), error)
        return losses

    def _open(self, learners: LearnerGroup, members: list[int]) -> None:
        size = 1 + len(members) * self._workers
        backend, timeout_s = self._backend, self._timeout_s
        self._meeting = on_first_learner(learners, lambda learner: _open_sender(learner, size, backend, timeout_s))
        self._members, self._specs = members, on_first_learner(learners, _specs)


def _open_sender(learner: StarPOLearner, size: int, backend: Backend, timeout_s: float) -> Rendezvous:
    learner.weight_sender = Sender(ray.util.get_node_ip_address(), size, backend, timeout_s, learner.device)
    return learner.weight_sender.meeting


def _tensors(learner: StarPOLearner) -> dict[str, Tensor]:
    # A vLLM engine samples for one policy.
    (module_id,) = learner.module.keys()
    return lm_weights(learner.module[module_id].unwrapped().tensors(inference_only=True))


def _specs(learner: StarPOLearner) -> list[TensorSpec]:
    return specs_of(_tensors(learner))


def _send(learner: StarPOLearner) -> None:
    assert learner.weight_sender is not None
    learner.weight_sender.send(_tensors(learner))


def _error(sending: Background[None]) -> str:
    try:
        sending.result()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
