"""The loop of a run: train, show, validate, checkpoint, stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.diagnostics.alarms import Alarm, Alarms, measured
from rllib_ragen.faults.exit_codes import ExitCode, NothingPlayed, exit_code_of, sentence_of
from rllib_ragen.faults.interrupt import Interrupt
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.run.console import ConsoleState, Display, percent
from rllib_ragen.run.evaluation import Evaluation, best_on_validation
from rllib_ragen.run.example_reply import example_reply
from rllib_ragen.run.folder import RunFolder, SavedState
from rllib_ragen.run.log import Row, RunLog
from rllib_ragen.run.several import Scales, opened_levels, validation_lines
from rllib_ragen.run.trackers.registry import open_trackers
from rllib_ragen.starpo.watched_alarms import watched_alarms

if TYPE_CHECKING:
    from rllib_ragen.starpo.algorithm import StarPO


_NOTHING_TO_SAVE = (ExitCode.STORAGE, ExitCode.NOT_FINITE)

OnEvaluation = Callable[[Sequence[Evaluation]], None]
"""Listener to the evaluations on one split at one iteration."""
OnSave = Callable[[SavedState], None]
"""Listener to every checkpoint, when it is complete."""


@dataclass(frozen=True)
class Surroundings:
    """The environment of a run's loop, beside its algorithm."""

    config: RunConfig
    """Checked settings."""
    folder: RunFolder
    """Folder of the run."""
    display: Display
    """Display of the progress."""
    interrupt: Interrupt
    """Switch that ends the run after its current step, saved but neither tested nor exported."""
    scales: Scales = field(default_factory=lambda: {"": None})
    """Floor and ceiling of everything that is evaluated, for the display."""
    on_evaluation: OnEvaluation | None = None
    on_save: OnSave | None = None
    group: str | None = None
    """Name of the sweep that the run belongs to, for trackers."""


def run_training(around: Surroundings, start: SavedState | None = None) -> tuple[Training, str]:
    """Runs everything: build, test, train with validation and checkpoints, test, export. Ray must be started.

    Args:
        around: config, folder, display and signals of the run.
        start: the checkpoint to continue from; None: from the beginning.

    Returns:
        (the training as it ended, why it ended).
    """
    config, folder, display = around.config, around.folder, around.display
    algo = build(config)
    first = start.iteration if start else 0
    # A run that was killed before its first checkpoint has logs of what will be done again.
    log = RunLog(folder.path, first)
    try:
        log.trackers = open_trackers(
            config, folder.path, start=first, group=around.group, history=log.training_rows, say=display.say
        )
        folder.forget_bests_after(first)
        folder.forget_stop_reason()
        if start:
            load(algo, start)
            display.say(f"resumed     at iteration {first}")
        training = Training(around, algo, log, first)
        try:
            if first == 0:
                training.evaluate_all()
            training.validate_if_due()
            reason = training.train()
        except BaseException as error:
            training.save_what_stands(error)
            raise
        if not around.interrupt.requested and training.stop_code is ExitCode.DONE:
            training.evaluate_all()
            algo.export_model(folder.export)
            for policy in algo.trained_ids[1:]:
                algo.export_model(folder.export.with_name(f"{folder.export.name}_{policy}"), policy)
            if config.learner.lora_rank is not None:
                algo.export_adapter(folder.export_adapter)
        finished = not around.interrupt.requested and training.stop_code is ExitCode.DONE
        folder.save_stop_reason(training.iteration, reason, finished=finished)
        return training, reason
    finally:
        log.close()
        algo.stop()


def build(config: RunConfig) -> StarPO:
    """Builds the algorithm of a config, with its runners and learners. Ray must be started.

    Raises:
        ConfigError: something in it cannot be had; one sentence.
    """
    from ray.rllib.callbacks.callbacks import RLlibCallback

    from rllib_ragen.starpo.config import StarPOConfig

    try:
        starpo = StarPOConfig.from_run_config(config)
        # Alarms are this loop's: it has the log, and validations between iterations.
        starpo.callbacks_class = RLlibCallback
        algo: StarPO = starpo.build_algo()
    except ValueError as error:
        # An actor's error comes wrapped, with its whole traceback for a text.
        cause = getattr(error, "cause", None) or error
        raise ConfigError(sentence_of(cause, ExitCode.BAD_INPUT)) from error
    return algo


def load(algo: StarPO, saved: SavedState) -> None:
    """Restores a checkpoint's state.

    Raises:
        ConfigError: the checkpoint is damaged, or of another run; one sentence.
    """
    try:
        algo.load_checkpoint(str(saved.path))
    except ValueError as error:
        raise ConfigError(f"the checkpoint of iteration {saved.iteration} cannot be loaded: {error}") from error


class Training:
    """The training of `algo`, starting after iteration `first`.

    Evaluations are kept in the run's log, so a resumed run knows the earlier ones and repeats none.
    """

    def __init__(self, around: Surroundings, algo: StarPO, log: RunLog, first: int = 0) -> None:
        self.config = around.config
        self.iteration = first
        self._algo = algo
        self._folder = around.folder
        self._log = log
        self._display = around.display
        self._interrupt = around.interrupt
        self._scales = around.scales
        self._on_evaluation = around.on_evaluation
        self._on_save = around.on_save
        rows = log.rows()
        self.evaluations = [self._evaluation(row) for row in rows if "split" in row]
        self._spent_s = max((row["time_s"] for row in rows if "time_s" in row), default=0.0)
        self._num_tokens = max((row.get("num_reply_tokens_lifetime", 0) for row in rows), default=0)
        self._saved_at = first if around.folder.checkpoints() else -1
        self._alarms = Alarms(watched_alarms(self.config), rows)
        self._alarm = ""
        self._last_row: Row = next((row for row in reversed(rows) if "split" not in row), {})
        self._played = False
        """Whether any trajectory of an iteration done here has not failed."""

    def evaluate(self, split: str, num_instances: int) -> None:
        """Evaluates sampled and greedy on `split`, unless that was done at this iteration, or the run is to stop."""
        done = {e.greedy for e in self.evaluations if (e.iteration, e.split) == (self.iteration, split)}
        found = []
        for greedy in sorted({False, True} - done):
            if self._interrupt.requested or num_instances == 0:
                return
            result = measured(self._algo.evaluate_split(split, num_instances, greedy))
            row = self._log.evaluation(self.iteration, split, greedy, result, self._algo.success_by_instance)
            self._watch(row)
            found.append(self._evaluation(row))
            self.evaluations.append(found[-1])
        if found:
            self._display.say(validation_lines(found, self._scales))
            if split == "val":
                self._keep_best()
            if self._on_evaluation is not None:
                self._on_evaluation(found)

    def _evaluation(self, row: Row) -> Evaluation:
        return Evaluation.from_row(row, self.config.eval_temperature)

    def evaluate_all(self) -> None:
        """Evaluates on validation and test instances, before and after the training."""
        if self.config.eval.interval:
            self.evaluate("val", self.config.eval.num_instances)
        self.evaluate("test", self.config.eval.num_test_instances)

    def validate_if_due(self) -> None:
        """Validates every `eval.interval` iterations."""
        interval = self.config.eval.interval
        if interval and self.iteration % interval == 0:
            self.evaluate("val", self.config.eval.num_instances)

    def train(self) -> str:
        """Trains until a limit, alarm or signal stops it, and saves the last state → the reason in words.

        Raises:
            NothingPlayed: every trajectory failed, so there is no policy to test or to export.
        """
        before_s, started = self._spent_s, time.monotonic()
        done_here = 0
        reason = self._reason_to_stop(before_s)
        while not reason:
            metrics = self._iterate()
            self.iteration += 1
            done_here += 1
            self._spent_s = before_s + time.monotonic() - started
            self._num_tokens = metrics["num_reply_tokens_lifetime"]
            self._played = self._played or metrics.get("success") is not None
            row = self._log.train(
                self.iteration, self._spent_s, metrics, self._algo.last_trajectories(), self._algo.last_advantages()
            )
            left_s = self._left_s((self._spent_s - before_s) / done_here)
            self._display.iteration(
                ConsoleState(self.iteration, self.config.iterations, self._spent_s, left_s, metrics)
            )
            for line in opened_levels(self._last_row, row):
                self._display.say(line)
            self._last_row = row
            self._watch(row)
            self.validate_if_due()
            reason = self._reason_to_stop(before_s + time.monotonic() - started)
            interval = self.config.checkpoint_interval
            if reason or (interval and self.iteration % interval == 0):
                self.save()
        self.save()
        if done_here and not self._played and not self._interrupt.requested and self.stop_code is ExitCode.DONE:
            error = next((one.error for one in self._algo.last_trajectories() if one.error), "no reason is known")
            raise NothingPlayed(f"every trajectory of all {done_here} iterations failed: {error}")
        return reason

    def save_what_stands(self, error: BaseException) -> None:
        """Saves a checkpoint of the last whole iteration after an error, if that is possible and useful."""
        folder = self._folder.path
        wanted = self._interrupt.given_up or not isinstance(error, KeyboardInterrupt)
        if not wanted or not self._algo.between_updates or exit_code_of(error, folder) in _NOTHING_TO_SAVE:
            return
        try:
            self.save()
        except Exception as why:
            self._display.say(
                f"iteration {self.iteration} could not be saved: {sentence_of(why, exit_code_of(why, folder))}"
            )

    def _iterate(self) -> Row:
        with waiting(f"iteration {self.iteration + 1}"):
            return measured(self._algo.train()["starpo"])

    def save(self) -> None:
        """Saves a checkpoint of this iteration, unless there is one."""
        if self._saved_at == self.iteration:
            return
        with waiting("a checkpoint"):
            path = self._folder.save_checkpoint(self.iteration, self._save_to, self.config.keep_checkpoints)
        self._saved_at = self.iteration
        if self._on_save is not None:
            self._on_save(SavedState(self.iteration, path))

    @property
    def stop_code(self) -> ExitCode:
        """Exit code: DONE, or that of the reason to stop."""
        return self._algo.stop_code

    def _keep_best(self) -> None:
        """Saves this iteration if its validation is the best."""
        best = best_on_validation(self.evaluations)
        if best is not None and best[0] == self.iteration:
            with waiting("a checkpoint"):
                path = self._folder.save_best(self.iteration, self._save_to)
            self._display.say(f"best so far on validation ({percent(best[1])}), kept in {path}")

    def _watch(self, row: Row) -> None:
        """Tells and logs the alarms that a row sets off."""
        for found in self._alarms.feed(row):
            alarm = self._with_example(found)
            self._log.alarm(alarm.to_json())
            self._display.say(f"warning  {alarm}")
            if alarm.mode == "stop":
                self._alarm = f"alarms.{alarm.alarm}=stop and there is a {alarm}"

    def _with_example(self, alarm: Alarm) -> Alarm:
        """Returns an alarm about what replies lack with one of them."""
        if alarm.alarm not in ("no_valid_reply", "nothing_to_compare"):
            return alarm
        example = example_reply(self._algo.last_trajectories(), self.config.rollout.max_reply_tokens)
        return replace(alarm, message=f"{alarm.message}; {example}") if example else alarm

    def _save_to(self, folder: Path) -> None:
        self._algo.save_checkpoint(str(folder))

    def _reason_to_stop(self, spent_s: float) -> str:
        limit_s, limit_tokens = self.config.time_limit_s, self.config.token_limit
        if self._interrupt.requested:
            return "it was interrupted"
        if self._algo.stop_reason:
            return str(self._algo.stop_reason)
        if self._alarm:
            return self._alarm
        if self.iteration >= self.config.iterations:
            return f"all {self.config.iterations} iterations are done"
        if limit_s is not None and spent_s >= limit_s:
            return f"the time limit of {limit_s:g} s is reached"
        if limit_tokens is not None and self._num_tokens >= limit_tokens:
            return f"the limit of {limit_tokens} sampled tokens is reached"
        return ""

    def _left_s(self, seconds_per_iteration: float) -> float:
        """Estimates the seconds until the first of the limits."""
        left_s = [(self.config.iterations - self.iteration) * seconds_per_iteration]
        if self.config.time_limit_s is not None:
            left_s.append(self.config.time_limit_s - self._spent_s)
        if self.config.token_limit is not None:
            left_s.append(self._spent_s * (self.config.token_limit / max(1, self._num_tokens) - 1))
        return max(0.0, min(left_s))
