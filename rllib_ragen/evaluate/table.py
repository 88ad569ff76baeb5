"""Several models in several environments as one table."""

from __future__ import annotations

from collections.abc import Sequence

from rllib_ragen.evaluate.plan import Job
from rllib_ragen.run.evaluation import Evaluation, marks
from rllib_ragen.run.several import find_scales


def table(results: Sequence[tuple[Job, Sequence[Evaluation]]]) -> str:
    """Returns a line for each model in each environment: success sampled and greedy with standard errors, beside what
    it is read against.
    """
    ways = list(dict.fromkeys("greedy" if one.greedy else "sampled" for _, found in results for one in found))
    rows = [["model", "environment", *ways, "instances", "on this scale, %"]]
    for job, found in results:
        scales = find_scales(job.config, job.label)
        if found[0].is_mean and job.label is None:
            rows.append([job.model, f"mean of {job.env}", *map(str, found), _count(found), "each its own"])
        for path, scale in scales.items():
            own = [one.parts[path] for one in found] if path else found
            env = path if job.config.envs else f"{job.env}/{path}".rstrip("/")
            told = ", ".join(f"{name} {100 * rate:.1f}" for name, rate in marks(scale).items())
            rows.append([job.model, env, *map(str, own), _count(own), told or "unknown"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def _count(found: Sequence[Evaluation]) -> str:
    return str(found[0].num_instances or found[0].num_episodes)
