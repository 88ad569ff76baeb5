"""Plays one job and keeps what it finds: a row per way of decoding, and every trajectory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ragen_envs.tree import Tree
from rllib_ragen.evaluate.plan import Job
from rllib_ragen.evaluate.record import EvaluationRecord
from rllib_ragen.faults.exit_codes import NothingPlayed
from rllib_ragen.run.evaluation import Evaluation, outcome_lines
from rllib_ragen.run.several import find_scales, scales_line

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

    config, scales = job.config, find_scales(job.config, job.label)
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
            say("\n".join(lines_of(found[-1], row, alone=job.label is not None)))
        say(f"on this scale: {scales_line(scales)}")
        record.add(job, rows, scales)
        return found
    finally:
        algo.stop()


def _one_way(algo: Any, job: Job, split: str, num_instances: int, greedy: bool, record: EvaluationRecord) -> Tree:
    from rllib_ragen.diagnostics.alarms import measured

    result = measured(algo.evaluate_split(split, num_instances, greedy, job.label))
    record.add_trajectories(job, split, greedy, algo.evaluated)
    failures = [one.error for one in algo.evaluated if one.stop_reason.failed]
    if result["success"] is None:
        raise NothingPlayed(f"every one of the {num_instances} episodes failed: {failures[0]}")
    row = {"iteration": job.iteration, "split": split, "greedy": greedy, **result}
    return row | {"failures": failures, "instances": algo.success_by_instance}


def lines_of(found: Evaluation, row: Mapping[str, Any], *, alone: bool = False) -> list[str]:
    """Returns an evaluation as lines: the whole, and each of its parts; `alone`: only the parts."""
    lines = []
    for path, part in [*([] if alone else [("", found)]), *found.parts.items()]:
        prefix = f"{path}/" if path else ""
        values = {name: row.get(f"{prefix}{name}") for name in _SHOWN}
        more = ", ".join(f"{name} {value:.3g}" for name, value in values.items() if value is not None)
        name = f"{path}: " if path else "mean over environments: " if found.is_mean else ""
        lines += [f"{part.way:8} {name}{part}  ({part.count}; {more})", *outcome_lines(part)]
    return lines
