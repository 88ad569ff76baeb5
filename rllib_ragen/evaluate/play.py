"""Plays one job and keeps what it finds: a row per way of decoding, and every trajectory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragen_envs.tree import Tree
from rllib_ragen.evaluate.plan import Job
from rllib_ragen.evaluate.record import EvaluationRecord
from rllib_ragen.faults.exit_codes import NothingPlayed
from rllib_ragen.run.evaluation import Evaluation, find_baselines, marks, outcome_lines, scale_line

_SHOWN = ("return_mean", "turns_mean", "valid_ratio", "reply_tokens_mean", "num_failed")


def evaluate(
    job: Job, split: str, num_instances: int, record: EvaluationRecord, say: Callable[[str], object]
) -> list[Evaluation]:
    """Returns the success sampled and greedy, said beside floor and ceiling; everything else goes into `record`.

    Raises:
        ConfigError: something that the config names cannot be had.
        NothingPlayed: every episode failed.
    """
    from rllib_ragen.run.loop import build, load

    config, scale = job.config, find_baselines(job.config)
    algo = build(config)
    try:
        if job.saved:
            load(algo, job.saved)
        where = f"{job.saved.path.parent.name}/{job.saved.path.name}" if job.saved else config.model.path
        say(f"{job.env}, {split} split, {where}")
        if job.warning:
            say(f"warning  {job.warning}")
        found, rows = [], []
        for greedy in (False, True):
            row = _one_way(algo, job, split, num_instances, greedy, record)
            rows.append(row)
            found.append(Evaluation.from_row(row, config.eval_temperature))
            say(_line(found[-1], row))
        say(f"on this scale: {scale_line(scale)}")
        record.add(job, rows, marks(scale))
        return found
    finally:
        algo.stop()


def _one_way(algo: Any, job: Job, split: str, num_instances: int, greedy: bool, record: EvaluationRecord) -> Tree:
    from rllib_ragen.diagnostics.alarms import measured

    result = measured(algo.evaluate_split(split, num_instances, greedy))
    record.add_trajectories(job, split, greedy, algo.evaluated)
    failures = [one.error for one in algo.evaluated if one.stop_reason.failed]
    if result["success"] is None:
        raise NothingPlayed(f"every one of the {num_instances} episodes failed: {failures[0]}")
    row = {"iteration": job.iteration, "split": split, "greedy": greedy, **result}
    return row | {"failures": failures, "instances": algo.success_by_instance}


def _line(found: Evaluation, row: Tree) -> str:
    more = ", ".join(f"{name} {row[name]:.3g}" for name in _SHOWN if row.get(name) is not None)
    return "\n".join([f"{found.way:8} {found}  ({found.count}; {more})", *outcome_lines(found)])
