"""Several models in several environments as one table."""

from __future__ import annotations

from collections.abc import Sequence

from rllib_ragen.evaluate.plan import Job
from rllib_ragen.run.evaluation import Evaluation, find_baselines, marks


def table(results: Sequence[tuple[Job, Sequence[Evaluation]]]) -> str:
    """Returns a line for each model in each environment: success sampled and greedy with standard errors, beside what
    it is read against.
    """
    ways = list(dict.fromkeys("greedy" if one.greedy else "sampled" for _, found in results for one in found))
    rows = [["model", "environment", *ways, "instances", "on this scale, %"]]
    for job, found in results:
        scale = ", ".join(f"{name} {100 * rate:.1f}" for name, rate in marks(find_baselines(job.config)).items())
        count = str(len(found[0].instances) or found[0].num_episodes)
        rows.append([job.model, job.env, *map(str, found), count, scale or "unknown"])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)
