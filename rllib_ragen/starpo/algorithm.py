"""StarPO as an RLlib algorithm: sample → filter groups → assign credit → update → publish weights.

State-Thinking-Actions-Reward Policy Optimization, RAGEN (Wang et al. 2025, arXiv 2504.20073) and RAGEN-2
(arXiv 2604.06268).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import Any

from ray.rllib.callbacks.utils import make_callback
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, LEARNER_RESULTS

from ragen_envs.seeds import Stream, generator
from rllib_ragen.config.printable import safe
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.credit.filters import FilterResult, filter_groups
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.diagnostics.degenerate_replies import reply_statistics
from rllib_ragen.diagnostics.gradient_buckets import NUM_BUCKETS, Gradients, gradient_metrics
from rllib_ragen.diagnostics.information_probe import is_due, probe, probe_metric_names
from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.faults.heartbeat import resident_gib
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.learner.gradient_probe import measure_gradients
from rllib_ragen.learner.learner_calls import at_work, on_every_learner, on_first_learner
from rllib_ragen.learner.thought_scorer import score_on_learners
from rllib_ragen.learner.training_data import TokenTrainingData
from rllib_ragen.learner.update_metrics import LEARNER_METRICS, learner_metrics
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.llm_module import lm_weights
from rllib_ragen.models.lora_settings import lora_settings
from rllib_ragen.models.weight_arrays import WireState
from rllib_ragen.rollout.game_episodes import to_trajectories
from rllib_ragen.rollout.runner_pool import Limits, Losses, play_on_runners
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.rollout.statistics import policy_lag, rollout_statistics
from rllib_ragen.starpo.assign_credit import credited_rows
from rllib_ragen.starpo.background import Background
from rllib_ragen.starpo.checkpoint.adapter_folder import check_adapter_base, write_adapter_folder
from rllib_ragen.starpo.checkpoint.manifest import config_differences, read_facts
from rllib_ragen.starpo.checkpoint.save import load_learner_state, read_ahead, save_checkpoint, write_model_folder
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.counters import Batch, Progress
from rllib_ragen.starpo.dynamic_sampling import sample_with_spread
from rllib_ragen.starpo.matchmaking.games import GameLineUp
from rllib_ragen.starpo.matchmaking.single_agent import LineUp
from rllib_ragen.starpo.rllib_base import RLlibNames
from rllib_ragen.starpo.weight_sync import Publication, publish, put, send
from rllib_ragen.types import FloatArray, TokenRow, Trajectory

METRICS = "starpo"
"""Key of a result dict under which StarPO's metrics are."""
logger = logging.getLogger(__name__)


def make_line_up(config: StarPOConfig) -> LineUp:
    """Who plays in runs of `config`."""
    return GameLineUp(config) if config.has_several_agents else LineUp(config)


class StarPO(RLlibNames):
    """Trains an LLM agent on text environments.

    `train()` returns RLlib's result dict; what matters is flat under `starpo` (NaN where there was nothing to
    measure): success, return_mean, turns_mean, valid_ratio, reply_tokens_mean, reply_tokens_per_s, prefix_hit_rate,
    num_failed, group_reward_std, num_groups, kept_groups, zero_spread_groups, sampling_rounds, sampled_groups,
    policy_loss, value_loss, entropy, clip_fraction, grad_norm, logprob_gap_mean, logprob_gap_max, logprob_gap_k3,
    num_trained_tokens, skipped_steps, skipped_in_a_row, lr, kl (with a reference), policy_version, policy_lag,
    time_rollout_s, time_update_s, time_sync_s, learner_idle_share, runner_idle_share; with rollout.overlap also
    time_wait_s; what was lost on the way: num_lost_runners, num_hung_runners, num_recycled_runners, num_replayed,
    runner_gib, driver_gib.

    With `rollout.overlap` the next batch is sampled while this one is learnt from: its weights are one update old,
    and every trajectory is of one version. Without it the batch is always of the newest weights.
    """

    @classmethod
    def get_default_config(cls) -> StarPOConfig:
        """Sokoban with the embedded model."""
        return StarPOConfig()

    def setup(self, config: Any) -> None:
        """Builds runners and learners, and gives every runner the learners' weights."""
        starting = f"{config.num_env_runners} env runner(s) and {config.num_learners} learner(s) to start"
        with waiting(starting):
            super().setup(config)
        self._progress = Progress()
        self._losses = Losses()
        """Since the last iteration's end."""
        self._whole = True
        self.stop_code = ExitCode.DONE
        """What `stop_reason` means for the run."""
        self.evaluation_error = ""
        """Of the first failed episode of the last evaluation; empty: none failed."""
        self._trajectories: list[Trajectory] = []
        self._advantages: dict[int, FloatArray] = {}
        self._ahead: Batch | None = None
        """Sampled for the next iteration, while the last one learnt (rollout.overlap)."""
        self._published: Publication | None = None
        self._broadcast = self.config.make_broadcast()
        self._times: dict[str, float] = {}
        self._credit = self.config.credit_section()
        self._diagnostics = self.config.diagnostics_section()
        self._estimator = make_estimator(self._credit)
        self._rows_of = partial(
            credited_rows,
            section=self._credit,
            estimator=self._estimator,
            learners=self.learner_group,
            update=self.config.learner_section(),
            max_reply_tokens=self.config.max_reply_tokens,
        )
        self._line_up = make_line_up(self.config)
        if self.config.shares_module:
            self.env_runner.attach(self.learner_group._learner.module)
        self._publish()

    def training_step(self) -> None:
        """One iteration."""
        started, self._times = perf_counter(), {}
        batch = self._ahead or self._play_batch()
        self._ahead, self._whole = None, False
        self._trajectories = batch.trajectories
        ahead = Background(self._play_batch) if self.config.overlap == "one_step_off" else None
        own = self._line_up.own(self._trajectories)
        alive = [trajectory for trajectory in own if not trajectory.stop_reason.failed]
        filtered = filter_groups(alive, self._credit)
        self._log(rollout_statistics(own) | reply_statistics(alive) | filtered.metrics | batch.drawn)
        self._log(self._line_up.statistics(own))
        with self._timed("diagnostics"):
            self._log(self._probe(alive))
            due = is_due(self._diagnostics.gradients_interval, self._progress.iteration)
            self._log(gradient_metrics(self.gradients(NUM_BUCKETS, alive) if due else None))

        with self._timed("update"):
            rows = self._credited_rows(filtered)
            self._log({"policy_lag": policy_lag(filtered.kept, self._progress.policy_version)})
            self._update(rows)
        if ahead is not None:
            with self._timed("wait"):
                self._ahead = ahead.result()
                self._progress.ahead_drawn = self._ahead.drawn
        with self._timed("sync"):
            self._progress.iteration += 1
            copied = self._copy_weights(self._line_up.to_copy(self._progress.iteration, alive))
            if rows or copied:
                self._publish()
        self._whole = True
        self._log_costs(batch, perf_counter() - started)

    # --- the parts of an iteration ----------------------------------------------------------------------------------

    def _next_specs(self, num_groups: int) -> Sequence[EpisodeSpec]:
        specs = self._line_up.training_specs(self._progress.next_group, num_groups)
        self._progress.next_group += num_groups
        return specs

    def _play_batch(self) -> Batch:
        """The rollouts of one iteration, with the weights that the runners have now."""
        started, metrics, first_group = perf_counter(), [], self._progress.next_group

        def draw(num_groups: int) -> list[Trajectory]:
            part = self._play(self._next_specs(num_groups))
            metrics.extend(part.metrics)
            return part.trajectories

        rounds = self._credit.dynamic_sampling_rounds
        try:
            trajectories, drawn = sample_with_spread(draw, self.config.num_groups, rounds)
        except BaseException:
            # Nothing of it is learnt from: whoever goes on from here plays these groups.
            self._progress.next_group = first_group
            raise
        return Batch(trajectories, metrics, perf_counter() - started, drawn)

    def _play(self, specs: Sequence[EpisodeSpec], *, greedy: bool = False, count: bool = True) -> Batch:
        """The specs' trajectories, in order, from whoever samples here. Touches no learner and no metric of ours."""
        started, config = perf_counter(), self.config
        if self.env_runner_group.num_remote_env_runners() == 0:
            with waiting(f"rollout of {len(specs)} trajectories"):
                episodes = self.env_runner.sample(specs=specs, greedy=greedy, count=count)
            metrics = [self.env_runner.get_metrics()] if count else []
        else:
            episodes, metrics, losses = play_on_runners(
                self.env_runner_group,
                specs,
                greedy=greedy,
                count=count,
                limits=Limits(config.sample_timeout_s, config.hang_timeout_s, config.max_runner_gib),
                restore=lambda: self.restore_env_runners(self.env_runner_group),
            )
            self._losses += losses
        return Batch(to_trajectories(episodes), metrics, perf_counter() - started)

    def _copy_weights(self, ids: tuple[str, str] | None) -> bool:
        """Gives one policy's weights to another, on every learner; whether there was anything to do."""
        if ids is not None:
            on_every_learner(self.learner_group, lambda learner: learner.copy_module(*ids))
        return ids is not None

    def _publish(self) -> None:
        """Gives the runners the learners' weights. The last publication goes first: the store need not hold two."""
        self._published = None
        self._published = publish(
            self.learner_group,
            self.env_runner_group,
            self._progress.policy_version,
            self.config.hang_timeout_s,
            self._broadcast,
            keep=self.config.overlap != "off",
        )
        self._losses += self._published.losses

    def _credited_rows(self, filtered: FilterResult) -> list[TokenRow]:
        """Each policy's trajectories are credited by themselves, in the order of the policies' ids."""
        rows: list[TokenRow] = []
        self._advantages = {}
        for module_id in sorted({trajectory.module_id for trajectory in filtered.kept}):
            kept = [trajectory for trajectory in filtered.kept if trajectory.module_id == module_id]
            own, measured = self._rows_of(kept, filtered.metrics["kept_ratio"])
            learnt = [trajectory for trajectory in kept if trajectory.num_reply_tokens]
            self._advantages |= {id(t): row.advantages for t, row in zip(learnt, own, strict=True)}
            rows += own
            self._log(measured)
        return rows

    def _probe(self, alive: Sequence[Trajectory]) -> dict[str, float]:
        """What reasoning depends on, if this iteration is one to measure it; else NaN."""
        progress = self._progress
        if not is_due(self._diagnostics.interval, progress.iteration):
            return dict.fromkeys(probe_metric_names(), float("nan"))
        metrics, progress.std_ema = probe(
            [trajectory for trajectory in alive if trajectory.module_id == self._line_up.main],
            self._diagnostics,
            score=partial(score_on_learners, self.learner_group, self._line_up.main),
            decode=self._chat.reply_text,
            seed=[Stream.PROBE, self.config.seed, progress.iteration],
            std_ema=progress.std_ema,
        )
        return metrics

    @cached_property
    def _chat(self) -> ChatFormat:
        return ChatFormat.from_folder(self.config.model_folder)

    def _update(self, rows: Sequence[TokenRow]) -> None:
        """Updates the policy on `rows`; without any it only counts, and asks to stop after too many such batches."""
        progress = self._progress
        if not rows:
            progress.empty_in_a_row += 1
            if progress.empty_in_a_row >= self._credit.max_empty_updates:
                progress.stop_reason = f"{progress.empty_in_a_row} batches in a row had nothing to learn from"
                if all(trajectory.stop_reason.failed for trajectory in self._trajectories):
                    progress.stop_reason += f": {self._why_empty()}"
                    self.stop_code = ExitCode.ENVIRONMENT
            logger.warning("iteration %d: nothing to learn from (%s)", progress.iteration, self._why_empty())
            self._log(dict.fromkeys(LEARNER_METRICS, float("nan")) | {"num_trained_tokens": 0.0})
            return
        progress.empty_in_a_row = 0
        progress.policy_version += 1
        data = TokenTrainingData.plan(
            rows,
            num_minibatches=self.config.num_minibatches,
            num_epochs=self.config.num_epochs,
            rng=generator(Stream.MINIBATCH_ORDER, self.config.seed, progress.iteration),
        )
        with at_work(self.learner_group, "the update"):
            results = self.learner_group.update(training_data=data)
        self.metrics.aggregate(results, key=LEARNER_RESULTS)
        found = learner_metrics(
            {
                module_id: self.metrics.peek((LEARNER_RESULTS, module_id), default={}, latest_merged_only=True)
                for module_id in sorted({row.module_id for row in rows})
            }
        )
        self._log(found)
        if found["skipped_in_a_row"] >= self.config.max_skipped_steps:
            progress.stop_reason = (
                f"{found['skipped_in_a_row']:.0f} optimiser steps in a row had gradients that are not finite"
            )
            self.stop_code = ExitCode.NOT_FINITE

    def _why_empty(self) -> str:
        failed = [trajectory for trajectory in self._trajectories if trajectory.stop_reason.failed]
        if len(failed) == len(self._trajectories):
            return safe(f"every trajectory failed, the first with: {failed[0].error}")
        if not any(trajectory.num_reply_tokens for trajectory in self._trajectories):
            return "no token was sampled: rollout.max_context_tokens leaves no room behind the first prompt"
        return f"filter {self._credit.filter} kept no group, because no group's returns differ"

    def _log_costs(self, batch: Batch, iteration_s: float) -> None:
        progress = self._progress
        self.metrics.aggregate(batch.metrics, key=ENV_RUNNER_RESULTS)
        self._times["rollout"] = batch.seconds
        tokens = sum(trajectory.num_reply_tokens for trajectory in self._trajectories)
        progress.num_turns += sum(len(trajectory.turns) for trajectory in self._trajectories)
        progress.num_reply_tokens += tokens
        self._log(
            {f"time_{name}_s": seconds for name, seconds in self._times.items()}
            | {
                "reply_tokens_per_s": tokens / max(batch.seconds, 1e-9),
                "learner_idle_share": max(0.0, 1 - self._times["update"] / iteration_s),
                "runner_idle_share": max(0.0, 1 - batch.seconds / iteration_s),
                "policy_version": progress.policy_version,
                "empty_in_a_row": progress.empty_in_a_row,
                "num_turns_lifetime": progress.num_turns,
                "num_reply_tokens_lifetime": progress.num_reply_tokens,
            }
            | self._losses.metrics()
            | {"driver_gib": resident_gib()}
        )
        self._losses = Losses()

    def _log(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self.metrics.log_value((METRICS, name), value, reduce="mean", window=1)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self._times[name] = perf_counter() - start

    # --- for whoever drives a run -----------------------------------------------------------------------------------

    def evaluate_split(self, split: str, num_instances: int, greedy: bool) -> dict[str, float]:
        """Plays `num_instances` instances of `split` ("train", "val", "test") with the training runners.

        The same instances and seeds every time; no training counter moves.

        Returns:
            rollout_statistics of the episodes and num_instances; of a game more (GameLineUp.evaluate).
        """

        def play(specs: Sequence[EpisodeSpec]) -> list[Trajectory]:
            trajectories = self._play(specs, greedy=greedy, count=False).trajectories
            errors = (one.error for one in trajectories if one.stop_reason.failed)
            self.evaluation_error = self.evaluation_error or next(errors, "")
            return trajectories

        self.evaluation_error = ""
        return self._line_up.evaluate(play, split, num_instances)

    def gradients(self, num_buckets: int, batch: Sequence[Trajectory] | None = None) -> Gradients:
        """Of a batch, none failed; None: the next iteration's, played here, uncounted. In a game of the main policy."""
        if batch is None:
            specs = self._line_up.training_specs(self._progress.next_group, self.config.num_groups)
            batch = [one for one in self._play(specs, count=False).trajectories if not one.stop_reason.failed]
        own = [trajectory for trajectory in batch if trajectory.module_id == self._line_up.main]
        remembered = self._estimator.state()
        (rows, _), settings = self._rows_of(own, 1.0), self.config.learner_section()
        self._estimator.restore(remembered)
        return measure_gradients(self.learner_group, self._line_up.main, own, rows, settings, num_buckets)

    def last_trajectories(self) -> list[Trajectory]:
        """What the last iteration sampled, failed ones too, in groups."""
        return self._trajectories

    def last_advantages(self) -> list[FloatArray | None]:
        """Of each of `last_trajectories()`, [num_tokens]: its advantages in the update; None if it was left out."""
        return [self._advantages.get(id(trajectory)) for trajectory in self._trajectories]

    @property
    def stop_reason(self) -> str | None:
        """Why the run should stop now, or None."""
        return self._progress.stop_reason or None

    @property
    def between_updates(self) -> bool:
        """Whether the state is that after a whole iteration, fit for a checkpoint, even if `train()` has raised."""
        return self._whole

    @property
    def policy_version(self) -> int:
        """Updates that the policy has had."""
        return self._progress.policy_version

    @property
    def trained_ids(self) -> list[str]:
        """Policies that learn, the main one first."""
        return list(self._line_up.trained)

    def export_model(self, export_dir: str | Path, module_id: str | None = None) -> Path:
        """Writes a policy (default: the main one), adapters merged, in the sampler's dtype, as a plain transformers
        folder with tokenizer."""
        chosen = module_id or self._line_up.main

        def sampled_with(learner: Any) -> WireState:
            state: WireState = learner.module[chosen].unwrapped().get_state(inference_only=True)
            return state

        policy = lm_weights(on_first_learner(self.learner_group, sampled_with))
        write_model_folder(Path(export_dir), policy, self.config.model_folder)
        return Path(export_dir)

    def export_adapter(self, export_dir: str | Path) -> Path:
        """Writes the adapters as a folder that peft loads onto the model that the run started from.

        Raises:
            ValueError: the run trains all weights.
        """
        lora = lora_settings(self.config.learner_section())
        if lora is None:
            raise ValueError("learner.lora_rank=null: there is no adapter to export")
        state = self._learner_state()["rl_module"][self._line_up.main]
        write_adapter_folder(Path(export_dir), state, lora, self.config.model_folder)
        return Path(export_dir)

    def restore_env_runners(self, env_runner_group: Any) -> list[int]:
        """Takes restarted runners back into service, with current weights."""
        restored = list(env_runner_group.probe_unhealthy_env_runners() or [])
        if restored and self._published is not None:
            if self._published.weights is None:
                self._published = replace(self._published, weights=put(self.learner_group))
            self._losses += send(self._published, env_runner_group, restored, self.config.hang_timeout_s)
        return restored

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def _learner_state(self) -> dict[str, Any]:
        with at_work(self.learner_group, "a copy of the state"):
            state: dict[str, Any] = self.learner_group.get_state(not_components="learner/metrics_logger")["learner"]
        return state

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Writes safetensors and JSON (checkpoint.py); `save()` and Tune come here too."""
        config = self.config.to_run_config().model_dump(mode="json")
        folder = Path(checkpoint_dir)
        self._progress.estimator, self._progress.line_up = self._estimator.state(), self._line_up.state()
        save_checkpoint(
            folder,
            self._learner_state(),
            asdict(self._progress),
            config,
            self.config.model_folder,
            self._ahead.trajectories if self._ahead else [],
            lora_settings(self.config.learner_section()),
        )

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Continues where the checkpoint's run was, whatever the number of its learners and runners.

        Settings that differ from the checkpoint's run are told in a warning: what follows is another run.

        Raises:
            ValueError: no complete checkpoint, a file that is not what was written, or a checkpoint of another model.
        """
        folder, lora = Path(checkpoint_dir), lora_settings(self.config.learner_section())
        facts = read_facts(folder)
        differing = config_differences(facts["config"], self.config.to_run_config().model_dump(mode="json"))
        try:
            check_adapter_base(facts["adapter_base"], self.config.model_folder, lora)
            state = load_learner_state(folder)
            on_every_learner(self.learner_group, lambda learner: learner.restore(state), "loading a checkpoint")
        except ValueError as error:
            raise ValueError("; ".join([str(error), *differing])) from error
        if differing:
            logger.warning("%s was saved with other settings: %s", folder, "; ".join(differing))
        # Why that run stopped is its own affair: somebody wants to go on.
        self._progress = Progress(**{**facts["progress"], "stop_reason": ""})
        self._estimator.restore(self._progress.estimator)
        self._line_up.restore(self._progress.line_up)
        self._iteration = self._progress.iteration
        ahead = read_ahead(folder)
        self._ahead = Batch(ahead, [], 0.0, self._progress.ahead_drawn) if ahead else None
        self._publish()
        make_callback(
            "on_checkpoint_loaded",
            self.callbacks,
            self.config.callbacks_on_checkpoint_loaded,
            kwargs={"algorithm": self},
        )

    @classmethod
    def from_checkpoint(cls, path: Any, filesystem: Any = None, *, config: StarPOConfig | None = None) -> StarPO:
        """Builds the checkpoint's run, or `config` in its place, and continues.

        Raises:
            ValueError: no complete checkpoint.
        """
        folder = Path(getattr(path, "path", path))
        if config is None:
            config = StarPOConfig.from_run_config(RunConfig.model_validate(read_facts(folder)["config"]))
        algorithm: StarPO = config.build_algo()
        algorithm.load_checkpoint(str(folder))
        return algorithm
