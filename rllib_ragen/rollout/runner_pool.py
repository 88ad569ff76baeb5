"""Sampling on several runners: specs are divided among the healthy ones, and those of lost ones are played again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from rllib_ragen.faults.exit_codes import WorkersLost
from rllib_ragen.faults.heartbeat import Heartbeat, heartbeat_of
from rllib_ragen.faults.private_names.of_ray import actor_key, actor_manager
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.rollout.env_runner import Played
from rllib_ragen.rollout.game_episodes import Episode
from rllib_ragen.rollout.specs import EpisodeSpec

_MAX_ROUNDS = 6
"""Most rounds of playing lost episodes: chosen freely; runners that die in all of them die of the run itself."""
_POLL_S = 0.5
"""Seconds between two polls of the runners: chosen freely."""
_TAG = "play"
logger = logging.getLogger(__name__)


@dataclass
class RunnerFailures:
    """Counts of failed and restarted runners."""

    lost_runners: int = 0
    """Runners that died, including hung ones that were killed."""
    hung_runners: int = 0
    recycled_runners: int = 0
    """Runners restarted between two batches because they had grown beyond `fault.max_runner_gib`."""
    replayed: int = 0
    """Episodes that were lost with their runner and played again."""
    runner_gib: float = float("nan")
    """Resident memory of the largest runner, in GiB."""

    def metrics(self) -> dict[str, float]:
        """Returns the counts as metrics."""
        return {
            "num_lost_runners": self.lost_runners,
            "num_hung_runners": self.hung_runners,
            "num_recycled_runners": self.recycled_runners,
            "num_replayed": self.replayed,
            "runner_gib": self.runner_gib,
        }

    def __add__(self, other: RunnerFailures) -> RunnerFailures:
        return RunnerFailures(
            self.lost_runners + other.lost_runners,
            self.hung_runners + other.hung_runners,
            self.recycled_runners + other.recycled_runners,
            self.replayed + other.replayed,
            max((gib for gib in (self.runner_gib, other.runner_gib) if gib == gib), default=float("nan")),
        )


@dataclass(frozen=True)
class SamplingLimits:
    """Limits on the time of a call and the memory of a runner."""

    timeout_s: float
    """Longest wait for all episodes of a call, in seconds."""
    hang_timeout_s: float
    """Seconds without progress after which a runner is killed and restarted."""
    max_runner_gib: float | None = None
    """Resident memory above which a runner is restarted after its share, in GiB; None: no limit."""


def play_on_runners(
    runners: EnvRunnerGroup,
    specs: Sequence[EpisodeSpec],
    *,
    greedy: bool,
    count: bool,
    temperature: float | None = None,
    limits: SamplingLimits,
    restore: Callable[[], object],
) -> tuple[list[Episode], list[object], RunnerFailures]:
    """Plays every spec exactly once, whatever happens to single runners.

    Args:
        runners: a group with at least one remote runner.
        specs: the episodes.
        greedy: as in LLMEnvRunner.sample.
        count: likewise.
        temperature: likewise.
        limits: see SamplingLimits.
        restore: takes restarted runners back into service, with current weights.

    Returns:
        (episodes in the order of `specs`, metrics of the calls that came back, failures).

    Raises:
        RuntimeError: sampling itself failed.
        WorkersLost: runners died in all rounds, or the time is up.
    """
    deadline = time.monotonic() + limits.timeout_s
    pending = list(range(len(specs)))
    done: dict[int, Episode] = {}
    metrics: list[object] = []
    failures = RunnerFailures()
    for _ in range(_MAX_ROUNDS):
        shares = _spread(pending, healthy_ids(runners, restore, deadline))
        call = _Call(runners, shares, limits.hang_timeout_s)
        how = {"greedy": greedy, "count": count, "temperature": temperature}
        call.start({runner: [specs[i] for i in share] for runner, share in shares.items()}, how)
        for runner, played in call.results(deadline).items():
            if played.error:
                raise RuntimeError(f"sampling failed on env runner {runner}: {played.error}")
            done.update(zip(shares[runner], played.episodes, strict=True))
            metrics.append(played.metrics)
            failures += RunnerFailures(runner_gib=played.gib)
            if limits.max_runner_gib is not None and played.gib > limits.max_runner_gib:
                logger.warning("env runner %d has grown to %.2f GiB: restarted.", runner, played.gib)
                restart(runners, runner)
                failures.recycled_runners += 1
        failures += call.failures
        pending = [index for index in pending if index not in done]
        if not pending:
            return [done[index] for index in range(len(specs))], metrics, failures
        if time.monotonic() > deadline:
            raise WorkersLost(
                f"rollout.timeout_s: {len(pending)} of {len(specs)} episodes are missing after {limits.timeout_s:g} s"
            )
        failures.replayed += len(pending)
        logger.warning("%d of %d episodes were lost with their runners: played again.", len(pending), len(specs))
        restore()
    raise WorkersLost(f"env runners died in {_MAX_ROUNDS} rounds of sampling in a row; see their logs")


def _spread(pending: Sequence[int], runner_ids: Sequence[int]) -> dict[int, list[int]]:
    """Returns spec indices by runner; a group's episodes, of similar length, are dealt out in turn."""
    shares = {runner: list(pending[k :: len(runner_ids)]) for k, runner in enumerate(runner_ids)}
    return {runner: share for runner, share in shares.items() if share}


@dataclass
class _Call:
    """The pending `play` calls on the runners of `shares`."""

    runners: EnvRunnerGroup
    shares: dict[int, list[int]]
    hang_timeout_s: float
    failures: RunnerFailures = field(default_factory=RunnerFailures)
    open: dict[int, tuple[Heartbeat, float]] = field(default_factory=dict)
    """Last heartbeat of each runner that has not answered, and the time when it changed."""

    def start(self, specs: dict[int, list[EpisodeSpec]], how: Mapping[str, object]) -> None:
        """Sends each runner its share, to be played as `LLMEnvRunner.play` understands `how`."""
        now = time.monotonic()
        self.open = {runner: (self._pulse(runner), now) for runner in specs}
        actor_manager(self.runners).foreach_actor_async(
            func=["play"] * len(specs),
            kwargs=[{"specs": own, **how} for own in specs.values()],
            remote_actor_ids=list(specs),
            tag=_TAG,
        )

    def results(self, deadline: float) -> dict[int, Played]:
        """Returns the results by runner, without those that died, hang or are late."""
        manager = actor_manager(self.runners)
        results: dict[int, Played] = {}
        with waiting(self._what, lambda: (dict(self.open), len(results)), may_hang=False):
            while self.open and time.monotonic() < deadline:
                for result in manager.fetch_ready_async_reqs(timeout_seconds=_POLL_S, tags=[_TAG]):
                    if self.open.pop(result.actor_id, None) is None:
                        continue
                    if result.ok:
                        results[result.actor_id] = result.get()
                    else:
                        self.failures.lost_runners += 1
                self._kill_the_hung()
        for late in self.open:
            # Kill the late runner so that a stale result cannot be mistaken for a new one.
            restart(self.runners, late)
        self.failures.lost_runners += len(self.open)
        return results

    def _kill_the_hung(self) -> None:
        now = time.monotonic()
        for runner, (last, since) in list(self.open.items()):
            pulse = self._pulse(runner)
            if pulse != last:
                self.open[runner] = (pulse, now)
            elif now - since > self.hang_timeout_s:
                logger.warning("%s has not moved for %.0f s: restarted.", self._state(runner), now - since)
                del self.open[runner]
                restart(self.runners, runner)
                self.failures += RunnerFailures(lost_runners=1, hung_runners=1)

    def _what(self) -> str:
        return "rollout of " + ", ".join(map(self._state, list(self.open)))

    def _state(self, runner: int) -> str:
        pulse, _ = self.open.get(runner, (Heartbeat(), 0.0))
        # A pulse of an earlier call may be all there is.
        back = pulse.done if pulse.total == len(self.shares[runner]) else 0
        return f"runner {runner} ({back} of {len(self.shares[runner])} trajectories back)"

    def _pulse(self, runner: int) -> Heartbeat:
        return heartbeat_of(actor_key(actor_manager(self.runners).actors()[runner]))


def restart(runners: EnvRunnerGroup, runner: int) -> None:
    """Kills the runner's process; Ray starts another, which `restore` takes back into service."""
    manager = actor_manager(runners)
    ray.kill(manager.actors()[runner], no_restart=False)
    manager.set_actor_state(runner, healthy=False)


def restart_late(
    runners: EnvRunnerGroup, asked: Iterable[int], results: Iterable[Any], timeout_s: float
) -> RunnerFailures:
    """Restarts the runners that have not loaded new weights within `timeout_s`: they would sample with old ones.

    `results` are those of `foreach_actor` on the runners `asked`. Returns the counts of late and dead ones.
    """
    ok = {result.actor_id: result.ok for result in results}
    hung = set(asked) - set(ok)
    for late in hung:
        logger.warning("env runner %d has not taken its weights within %g s: restarted.", late, timeout_s)
        restart(runners, late)
    return RunnerFailures(lost_runners=len(hung) + list(ok.values()).count(False), hung_runners=len(hung))


def healthy_ids(runners: EnvRunnerGroup, restore: Callable[[], object], deadline: float) -> list[int]:
    """Ids of the healthy runners; waits while there is none (an empty list would mean *all* to RLlib)."""
    with waiting("an env runner to come back", runners.num_healthy_remote_workers, may_hang=False):
        while not (healthy := list(runners.healthy_env_runner_ids())):
            if time.monotonic() > deadline:
                raise WorkersLost("rollout.timeout_s: no healthy env runner came back in time")
            time.sleep(_POLL_S)
            restore()
    return healthy
