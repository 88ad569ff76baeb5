"""The runners of a run, which play its episodes with the learners' weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from rllib_ragen.faults.private_names.of_rllib import local_learner
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.rollout.game_episodes import to_trajectories
from rllib_ragen.rollout.runner_pool import RunnerFailures, SamplingLimits, play_on_runners
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.counters import Batch
from rllib_ragen.starpo.dynamic_sampling import sample_with_reward_std
from rllib_ragen.starpo.weight_sync import WeightSnapshot, put, send, sync_weights
from rllib_ragen.types import Trajectory


class Rollouts:
    """Sampling on the local runner, or on remote ones if the run has them."""

    def __init__(self, config: StarPOConfig, runners: EnvRunnerGroup, learners: LearnerGroup) -> None:
        self._config = config
        self._runners = runners
        self._learners = learners
        self._broadcast = config.make_broadcast()
        self.snapshot: WeightSnapshot | None = None
        """Weights that the runners have; None before the first sync."""
        self._failures = RunnerFailures()
        if config.shares_module:
            runners.local_env_runner.attach(local_learner(learners).module)

    def play(self, specs: Sequence[EpisodeSpec], *, greedy: bool = False, count: bool = True) -> Batch:
        """Plays the specs → their trajectories, in order. Changes no learner and no metric of the algorithm.

        Args:
            specs: the episodes.
            greedy: take the likeliest token instead of sampling.
            count: whether the episodes enter the runners' metrics.
        """
        started, config = perf_counter(), self._config
        if self._runners.num_remote_env_runners() == 0:
            local = self._runners.local_env_runner
            with waiting(f"rollout of {len(specs)} trajectories"):
                episodes = local.sample(specs=specs, greedy=greedy, count=count)
            metrics = [local.get_metrics()] if count else []
        else:
            episodes, metrics, failures = play_on_runners(
                self._runners,
                specs,
                greedy=greedy,
                count=count,
                limits=SamplingLimits(config.sample_timeout_s, config.hang_timeout_s, config.max_runner_gib),
                restore=self.restore,
            )
            self._failures += failures
        return Batch(to_trajectories(episodes), metrics, perf_counter() - started)

    def play_batch(self, next_specs: Callable[[int], Sequence[EpisodeSpec]], num_groups: int, rounds: int) -> Batch:
        """Plays the rollouts of one iteration, with the runners' current weights.

        Args:
            next_specs: returns the episodes of so many new groups.
            num_groups: number of groups wanted.
            rounds: most rounds of further sampling, for groups with equal returns (dynamic sampling).
        """
        started, metrics = perf_counter(), []

        def draw(num_groups: int) -> list[Trajectory]:
            part = self.play(next_specs(num_groups))
            metrics.extend(part.metrics)
            return part.trajectories

        trajectories, drawn = sample_with_reward_std(draw, num_groups, rounds)
        return Batch(trajectories, metrics, perf_counter() - started, drawn)

    def sync_weights(self, version: int) -> None:
        """Sends the learners' weights to the runners as policy version `version`."""
        # The last snapshot goes first: the store need not hold two.
        self.snapshot = None
        self.snapshot = sync_weights(
            self._learners,
            self._runners,
            version,
            self._config.hang_timeout_s,
            self._broadcast,
            keep=self._config.overlap != "off",
        )
        self._failures += self.snapshot.failures

    def restore(self) -> list[int]:
        """Takes restarted runners back into service, with current weights → their ids."""
        restored = list(self._runners.probe_unhealthy_env_runners() or [])
        if restored and self.snapshot is not None:
            if self.snapshot.weights is None:
                self.snapshot = replace(self.snapshot, weights=put(self._learners))
            self._failures += send(self.snapshot, self._runners, restored, self._config.hang_timeout_s)
        return restored

    def take_failures(self) -> RunnerFailures:
        """Returns the failures since the last call, and resets them."""
        taken, self._failures = self._failures, RunnerFailures()
        return taken
