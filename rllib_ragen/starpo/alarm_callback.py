"""Alarms where no run command watches: `build_algo()`, Tune, `Tuner("StarPO")`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ray.rllib.callbacks.callbacks import RLlibCallback

from ragen_envs.tree import Tree
from rllib_ragen.diagnostics.alarm_rules import WATCHED
from rllib_ragen.diagnostics.alarms import Alarms, measured
from rllib_ragen.starpo.watched_alarms import watched_alarms

logger = logging.getLogger(__name__)


class AlarmCallback(RLlibCallback):
    """Watches training and validation; every StarPOConfig has it, before the user's own callbacks.

    `result["alarms"]` says of each alarm that is not off whether its rule holds (1) or not (0). One that begins to hold
    is a warning in the log; with mode `stop` the algorithm gets a `stop_reason`. Whatever gave it one,
    `result["stop_reason"]` tells it and `result["done"]` is true, which ends a trial of Tune.

    It keeps nothing itself: the rows are the algorithm's, and part of its checkpoints.
    """

    def on_evaluate_end(self, *, algorithm: Any, evaluation_metrics: Tree, **kwargs: object) -> None:
        """Watches a validation, sampled and greedy."""
        for name in ("sampled", "greedy"):
            _watch(algorithm, {"split": "val", **measured(evaluation_metrics[name])})

    def on_train_result(self, *, algorithm: Any, result: Tree, **kwargs: object) -> None:
        """Watches an iteration, and adds to its result."""
        alarms = _watch(algorithm, measured(result["starpo"]))
        result["alarms"] = {name: float(holds) for name, holds in alarms.holding.items()}
        if algorithm.stop_reason:
            result["stop_reason"], result["done"] = algorithm.stop_reason, True


def _watch(algorithm: Any, row: Mapping[str, Any]) -> Alarms:
    progress = algorithm.progress
    alarms = Alarms(watched_alarms(algorithm.config.to_run_config()), progress.watched)
    given = {"iteration": progress.iteration, **row}
    for alarm in alarms.feed(given):
        logger.warning("%s", alarm)
        if alarm.mode == "stop":
            progress.stop_reason = progress.stop_reason or f"alarms.{alarm.alarm}=stop and there is a {alarm}"
    progress.watched.append({name: given[name] for name in WATCHED if name in given})
    return alarms
