"""The runners of a run, which play its episodes with the learners' weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic, perf_counter

from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from rllib_ragen.credit.rewards.batch import Rewards
from rllib_ragen.faults.private_names.of_rllib import local_learner
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.rollout.engines.base import EngineFailure
from rllib_ragen.rollout.game_episodes import to_trajectories
from rllib_ragen.rollout.runner_pool import RunnerFailures, SamplingLimits, healthy_ids, play_on_runners
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.counters import Batch
from rllib_ragen.starpo.dynamic_sampling import sample_with_reward_std
from rllib_ragen.starpo.weight_sync import WeightSnapshot, put, send, sync_weights
from rllib_ragen.types import Sampled, Sampling, Trajectory


class Rollouts:
    """Sampling on the local runner, or on remote ones if the run has them."""

    def __init__(
        self,
        config: StarPOConfig,
        runners: EnvRunnerGroup,
        learners: LearnerGroup,
        on_restored: Callable[[list[int]], None] = lambda ids: None,
    ) -> None:
        """`on_restored` hears of restarted runners that are back in service, with current weights."""
        self._on_restored = on_restored
        self._config = config
        self._runners = runners
        self._learners = learners
        self._broadcast = config.make_broadcast()
        self.snapshot: WeightSnapshot | None = None
        """Weights that the runners have; None before the first sync."""
        self._failures = RunnerFailures()
        self.rewards = Rewards(config.to_run_config(), config.trained_ids())
        if config.shares_module:
            runners.local_env_runner.attach(local_learner(learners).module)

    def evaluate(self, specs: Sequence[EpisodeSpec], greedy: bool) -> Batch:
        """Returns the specs' trajectories, greedy or at `eval.temperature`, counted nowhere and without `rewards`."""
        temperature = self._config.to_run_config().eval_temperature
        return self.play(specs, greedy=greedy, count=False, temperature=temperature)

    def play(
        self,
        specs: Sequence[EpisodeSpec],
        *,
        greedy: bool = False,
        count: bool = True,
        temperature: float | None = None,
    ) -> Batch:
        """Returns the specs' trajectories, in order. Touches no learner and no metric of the algorithm's.

        Args:
            specs: the episodes.
            greedy: take the likeliest token instead of sampling.
            count: whether the episodes count in the runners' metrics of training; else the batch's are an evaluation's.
            temperature: of sampling; None: `rollout.temperature`.
        """
        started, config = perf_counter(), self._config
        if self._runners.num_remote_env_runners() == 0:
            local = self._runners.local_env_runner
            with waiting(f"rollout of {len(specs)} trajectories"):
                episodes = local.sample(specs=specs, greedy=greedy, count=count, temperature=temperature)
            metrics = [local.take_metrics(count)]
        else:
            episodes, metrics, failures = play_on_runners(
                self._runners,
                specs,
                greedy=greedy,
                count=count,
                temperature=temperature,
                limits=SamplingLimits(config.sample_timeout_s, config.hang_timeout_s, config.max_runner_gib),
                restore=self._restore_and_tell,
            )
            self._failures += failures
        return Batch(to_trajectories(episodes), metrics, perf_counter() - started)

    def play_batch(self, next_specs: Callable[[int], Sequence[EpisodeSpec]], num_groups: int, rounds: int) -> Batch:
        """Returns the rollouts of one iteration, with the weights that the runners have now and all `rewards`.

        Args:
            next_specs: gives the episodes of so many groups that were not played before.
            num_groups: wanted.
            rounds: of further sampling, for groups without reward spread (dynamic sampling).

        Raises:
            NothingPlayed: a reward function fails on every trajectory.
        """
        started, metrics = perf_counter(), []

        def draw(num_groups: int) -> list[Trajectory]:
            part = self.play(next_specs(num_groups))
            metrics.extend(part.metrics)
            return self.rewards(part.trajectories)

        trajectories, drawn = sample_with_reward_std(draw, num_groups, rounds)
        return Batch(trajectories, metrics, perf_counter() - started, drawn | self.rewards.metrics(trajectories))

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

    def reply(self, prompt_ids: Sequence[int], module_id: str, sampling: Sampling) -> Sampled | EngineFailure:
        """Returns one reply of a policy, from the engine of the local runner or of the first healthy one."""
        asked = {"prompt_ids": prompt_ids, "module_id": module_id, "sampling": sampling}
        if self._runners.num_remote_env_runners() == 0:
            answer: Sampled | EngineFailure = self._runners.local_env_runner.reply(**asked)
            return answer
        deadline = monotonic() + self._config.sample_timeout_s
        first = healthy_ids(self._runners, self._restore_and_tell, deadline)[:1]
        (answer,) = self._runners.foreach_env_runner(
            "reply", kwargs=asked, local_env_runner=False, remote_worker_ids=first
        )
        return answer

    def _restore_and_tell(self) -> None:
        if restored := self.restore():
            self._on_restored(restored)

    def take_failures(self) -> RunnerFailures:
        """Returns the failures since the last call, and resets them."""
        taken, self._failures = self._failures, RunnerFailures()
        return taken
