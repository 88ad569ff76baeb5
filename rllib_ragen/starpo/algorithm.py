"""StarPO as an RLlib algorithm: sample → filter groups → assign credit → update → sync weights.

State-Thinking-Actions-Reward Policy Optimization, RAGEN (Wang et al. 2025, arXiv 2504.20073) and RAGEN-2
(arXiv 2604.06268).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from ray.rllib.callbacks.utils import make_callback
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS
from ray.tune import register_trainable

from rllib_ragen.config.printable import safe
from rllib_ragen.credit.filters import FilterResult, filter_groups
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.diagnostics.gradient_buckets import NUM_BUCKETS, Gradients, gradient_metrics
from rllib_ragen.diagnostics.information_probe import is_due
from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.faults.heartbeat import resident_gib
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.learner.gradient_probe import measure_gradients
from rllib_ragen.learner.learner_calls import on_every_learner
from rllib_ragen.learner.update_metrics import LEARNER_METRICS
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.starpo.assign_credit import credit_of_run
from rllib_ragen.starpo.background import Background
from rllib_ragen.starpo.batch_statistics import batch_statistics
from rllib_ragen.starpo.batches import batches_of
from rllib_ragen.starpo.checkpoint.load import load_state
from rllib_ragen.starpo.checkpoint.save import save_checkpoint
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.counters import Batch, Counters
from rllib_ragen.starpo.export import export_adapter, export_policy, learner_state
from rllib_ragen.starpo.learner_connectors import LearnerConnectors
from rllib_ragen.starpo.matchmaking.games import make_matchmaker
from rllib_ragen.starpo.offline import stored_groups
from rllib_ragen.starpo.probing import InformationProbe
from rllib_ragen.starpo.rllib_base import RLlibBase
from rllib_ragen.starpo.rollouts import Rollouts
from rllib_ragen.starpo.update import update_policies, why_nothing_to_learn
from rllib_ragen.types import FloatArray, TokenRow, Trajectory

logger = logging.getLogger(__name__)


class StarPO(RLlibBase):
    """An algorithm that trains an LLM agent on text environments.

    `train()` returns RLlib's result dict; StarPO's metrics are flat under `starpo` (NaN for those not measured):
    success, return_mean, group_reward_std, kept_groups, policy_loss, entropy … (all of them in docs/diagnostics.md).

    With `rollout.overlap` the next batch is sampled during the update: its weights are one update old,
    and every trajectory is of one version. Without it the batch is always of the newest weights.
    """

    @classmethod
    def get_default_config(cls) -> StarPOConfig:
        """Returns the config of Sokoban with the embedded model."""
        return StarPOConfig()

    def setup(self, config: Any) -> None:
        """Builds runners and learners, and sends the learners' weights to every runner."""
        config.prepare_model()
        self._stored = stored_groups(config)
        with waiting(f"{config.num_env_runners} env runner(s) and {config.num_learners} learner(s) to start"):
            super().setup(config)

    def connect(self) -> None:
        """Prepares everything else, for callbacks that are told of the algorithm may use all of it."""
        self._counters = Counters()
        self._whole = True
        self.stop_code = ExitCode.DONE
        """What `stop_reason` means for the run."""
        self.evaluated: list[Trajectory] = []
        """Trajectories of the last evaluation, failed ones too; of a game those of every seat that the policies had."""
        self.evaluation_metrics: list[Any] = []
        """Runners' metrics of the last evaluation, reduced."""
        self._trajectories: list[Trajectory] = []
        self._advantages: dict[int, FloatArray] = {}
        """Advantages of the last update by the trajectory's index."""
        self._ahead: Batch | None = None
        """Batch sampled for the next iteration, while the last one learnt (rollout.overlap)."""
        self._credit = self.config.credit_section()
        self._diagnostics = self.config.diagnostics_section()
        self._estimator = make_estimator(self._credit)
        plan = self.config.policy_plan()
        self._labels = [world.label for world in plan.worlds]
        self._rows_of = credit_of_run(self.config, self._estimator, self.learner_group)
        self._connectors = LearnerConnectors(self.config.build_learner_connector(None, None), self.metrics)
        self._matchmaker = make_matchmaker(plan)
        self._probe = InformationProbe(self.config, self.learner_group, self._matchmaker.main)
        self._rollouts = Rollouts(self.config, self.env_runner_group, self.learner_group, self._tell_recreated)
        self._batches = batches_of(self.config, self._stored, self._rollouts, self._matchmaker)
        self._sync_weights()

    def training_step(self) -> None:
        """Runs one iteration."""
        started = perf_counter()
        self._times.clear()
        batch = self._ahead or self._play_batch()
        self._ahead, self._whole = None, False
        self._trajectories = [replace(one, index=index) for index, one in enumerate(batch.trajectories)]
        self._write_output(self._counters.iteration + 1, self._trajectories)
        self._matchmaker.note(self._trajectories)
        ahead = Background(self._play_batch) if self.config.overlap == "one_step_off" else None
        own = self._matchmaker.own(self._trajectories)
        alive = self._connectors.shaped([trajectory for trajectory in own if not trajectory.stop_reason.failed])
        filtered = filter_groups(alive, self._credit)
        self._log(batch_statistics(self._labels, own, alive, filtered) | batch.drawn)
        self._log(self._matchmaker.statistics(own))
        with self._timed("diagnostics"):
            self._diagnose(alive)

        with self._timed("update"):
            rows = self._assign_credit(filtered)
            self._log({"policy_lag": self._batches.lag(filtered.kept, self._counters)})
            self._update(rows)
        if ahead is not None:
            with self._timed("wait"):
                self._ahead = ahead.result()
                self._counters.ahead_drawn = self._ahead.drawn
        with self._timed("sync"):
            self._counters.iteration += 1
            copied = self._copy_weights(self._matchmaker.to_copy(self._counters.iteration, alive))
            if rows or copied:
                self._sync_weights()
        self._whole = True
        self._log_costs(batch, perf_counter() - started)

    # --- the parts of an iteration ----------------------------------------------------------------------------------

    def _play_batch(self) -> Batch:
        return self._batches.take(self._counters)

    def _diagnose(self, alive: Sequence[Trajectory]) -> None:
        """Logs the information and gradient diagnostics in iterations that are due; else NaN."""
        self._log(self._probe.metrics(alive, self._counters))
        due = is_due(self._diagnostics.gradients_interval, self._counters.iteration)
        self._log(gradient_metrics(self.gradients(NUM_BUCKETS, alive) if due else None))

    def _assign_credit(self, filtered: FilterResult) -> list[TokenRow]:
        """Returns each policy's trajectories are credited by themselves, in the order of the policies' ids."""
        credited: list[tuple[Trajectory, TokenRow]] = []
        for module_id in sorted({trajectory.module_id for trajectory in filtered.kept}):
            kept = [trajectory for trajectory in filtered.kept if trajectory.module_id == module_id]
            own, measured = self._rows_of(kept, filtered.kept_ratios)
            credited += zip([one for one in kept if one.num_reply_tokens], own, strict=True)
            self._log(measured)
        rows = self._connectors.finished(credited)
        self._advantages = {one.index: row.advantages for (one, _), row in zip(credited, rows, strict=True)}
        return rows

    def _update(self, rows: Sequence[TokenRow]) -> None:
        """Updates the policies on `rows`; without any it counts an empty batch, and stops the run after too many."""
        counters = self._counters
        if self._estimator.chosen_only:
            rows = [row for row in rows if row.advantages.any()]
        if not rows:
            self._count_empty_batch()
            return
        counters.empty_in_a_row = 0
        counters.policy_version += 1
        found = update_policies(self.learner_group, rows, self.config, counters.iteration, self.metrics)
        self._log(found)
        if found["skipped_in_a_row"] >= self.config.max_skipped_steps:
            skipped = f"{found['skipped_in_a_row']:.0f}"
            counters.stop_reason = f"{skipped} optimiser steps in a row had gradients that are not finite"
            self.stop_code = ExitCode.NOT_FINITE

    def _count_empty_batch(self) -> None:
        counters = self._counters
        counters.empty_in_a_row += 1
        why = safe(why_nothing_to_learn(self._trajectories, self._credit.filter))
        if counters.empty_in_a_row >= self._credit.max_empty_updates:
            counters.stop_reason = f"{counters.empty_in_a_row} batches in a row had nothing to learn from"
            if all(trajectory.stop_reason.failed for trajectory in self._trajectories):
                counters.stop_reason += f": {why}"
                self.stop_code = ExitCode.ENVIRONMENT
        logger.warning("iteration %d: nothing to learn from (%s)", counters.iteration, why)
        self._log(dict.fromkeys(LEARNER_METRICS, float("nan")) | {"num_trained_tokens": 0.0})

    def _copy_weights(self, ids: tuple[str, str] | None) -> bool:
        """Copies one policy's weights to another, on every learner → False if `ids` is None."""
        if ids is not None:
            on_every_learner(self.learner_group, lambda learner: learner.copy_module(*ids))
        return ids is not None

    def _sync_weights(self) -> None:
        self._rollouts.sync_weights(self._counters.policy_version)

    def _log_costs(self, batch: Batch, iteration_s: float) -> None:
        self.metrics.aggregate(batch.metrics, key=ENV_RUNNER_RESULTS)
        self._times["rollout"] = batch.seconds
        tokens = sum(trajectory.num_reply_tokens for trajectory in self._trajectories)
        self._log(
            {f"time_{name}_s": seconds for name, seconds in self._times.items()}
            | {
                "reply_tokens_per_s": tokens / max(batch.seconds, 1e-9),
                "learner_idle_share": max(0.0, 1 - self._times["update"] / iteration_s),
                "runner_idle_share": max(0.0, 1 - batch.seconds / iteration_s),
            }
            | self._counters.count(self._trajectories)
            | self._rollouts.take_failures().metrics()
            | {"driver_gib": resident_gib()}
        )

    # --- for whoever drives a run -----------------------------------------------------------------------------------

    def evaluate_split(self, split: str, num_instances: int, greedy: bool, env: str | None = None) -> dict[str, float]:
        """Plays `num_instances` instances of `split` ("train", "val", "test") with the training runners.

        The same instances and seeds every time; no training counter moves. Sampled is at `eval.temperature`. `env` is
        the label of one of several environments; without it each plays as many.

        Returns:
            evaluation_statistics of the episodes and num_instances; of a game more (GameMatchmaker.evaluate), of
            several environments each one's (SeveralMatchmaker.evaluate).
        """

        def play(specs: Sequence[EpisodeSpec]) -> list[Trajectory]:
            played = self._rollouts.evaluate(specs, greedy)
            self.evaluated += played.trajectories
            self.evaluation_metrics += played.metrics
            return played.trajectories

        self.evaluated, self.evaluation_metrics = [], []
        return self._matchmaker.evaluate(play, split, num_instances, env)

    @property
    def success_by_instance(self) -> dict[str, float]:
        """Mean success of each distinct instance in the last `evaluate_split`, by a digest of its key."""
        return self._matchmaker.success_by_instance

    def gradients(self, num_buckets: int, batch: Sequence[Trajectory] | None = None) -> Gradients:
        """Measures a batch, none failed; None: the next iteration's, uncounted. In a game the main policy's."""
        if batch is None:
            peeked = self._rollouts.rewards(self._batches.peek(self._counters))
            batch = self._connectors.shaped([one for one in peeked if not one.stop_reason.failed])
        own = [trajectory for trajectory in batch if trajectory.module_id == self._matchmaker.main]
        remembered = self._estimator.state()
        (rows, _), settings = self._rows_of(own, {}), self.config.learner_section()
        self._estimator.restore(remembered)
        return measure_gradients(self.learner_group, self._matchmaker.main, own, rows, settings, num_buckets)

    def last_trajectories(self) -> list[Trajectory]:
        """Returns the trajectories of the last iteration, including failed ones, in groups."""
        return self._trajectories

    def last_advantages(self) -> list[FloatArray | None]:
        """Returns each of `last_trajectories()`' [num_tokens] advantages in the update; None: it was left out."""
        return [self._advantages.get(trajectory.index) for trajectory in self._trajectories]

    @property
    def stop_reason(self) -> str | None:
        """Why the run should stop now, or None."""
        return self._counters.stop_reason or self._rollouts.rewards.stop_reason or None

    @property
    def between_updates(self) -> bool:
        """Whether the state is that of a whole iteration, fit for a checkpoint, even if `train()` has raised."""
        return self._whole

    @property
    def policy_version(self) -> int:
        """Number of updates of the policy."""
        return self._counters.policy_version

    @property
    def progress(self) -> Counters:
        """How far the run is."""
        return self._counters

    @property
    def trained_ids(self) -> list[str]:
        """Ids of the trained policies, the main one first."""
        return list(self._matchmaker.plan.trained)

    def export_model(self, export_dir: str | Path, module_id: str | None = None) -> Path:
        """Writes a policy (default: the main one) as a plain transformers folder (`export_policy`)."""
        chosen = module_id or self._matchmaker.main
        return export_policy(self.learner_group, chosen, self.config.model_folder, Path(export_dir))

    def export_adapter(self, export_dir: str | Path) -> Path:
        """Writes the main policy's adapters as a folder that peft loads. Raises ValueError if there are none."""
        return export_adapter(self.learner_group, self._matchmaker.main, self.config, Path(export_dir))

    def restore_env_runners(self, env_runner_group: object) -> list[int]:
        """Takes restarted runners back into service, with current weights."""
        return self._rollouts.restore()

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Writes safetensors and JSON (checkpoint/save.py); `save()` and Tune come here too."""
        self._counters.estimator, self._counters.matchmaker = self._estimator.state(), self._matchmaker.state()
        self._counters.rewards = self._rollouts.rewards.state()
        save_checkpoint(
            Path(checkpoint_dir),
            learner_state(self.learner_group),
            asdict(self._counters),
            self.config.to_run_config().model_dump(mode="json"),
            self.config.model_folder,
            ahead=self._ahead.trajectories if self._ahead else [],
            lora=self.config.lora(),
        )

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        """Restores a checkpoint, whatever the number of its learners and runners.

        Warns of settings that differ from the checkpoint's run: the rest is another run then.

        Raises:
            ValueError: no complete checkpoint, a damaged file, or a checkpoint of another model.
        """
        self._counters, ahead = load_state(Path(checkpoint_dir), self.config, self.learner_group)
        self._estimator.restore(self._counters.estimator)
        self._matchmaker.restore(self._counters.matchmaker)
        self._rollouts.rewards.restore(self._counters.rewards)
        self.set_iteration(self._counters.iteration)
        self._ahead = Batch(ahead, [], 0.0, self._counters.ahead_drawn) if ahead else None
        self._sync_weights()
        told = self.config.callbacks_on_checkpoint_loaded
        make_callback("on_checkpoint_loaded", self.callbacks, told, kwargs={"algorithm": self})


register_trainable("StarPO", StarPO)
