"""The part of docs/algorithm_table.md that is made from the recorded runs: one table per environment."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rllib_ragen.config.load import preset
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.evaluation import find_baselines, scale_line, way
from rllib_ragen.starpo.checks.build_config import build_config

BEGIN, END = "<!-- made by benchmarks/algorithm_table.py -->", "<!-- end -->"
WAYS = ("sampled", "greedy")
FILTERS = {"none": "all groups", "top_p": "top-p 0.9"}
Record = dict[str, Any]


def write_page(page: Path, records: Sequence[Record]) -> None:
    """Replaces the text between the page's two marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{tables(records)}\n{END}{after}")


def tables(records: Sequence[Record]) -> str:
    """Returns a heading and a table for each environment."""
    return "\n".join(
        table(env, [r for r in records if r["env"] == env]) for env in dict.fromkeys(r["env"] for r in records)
    )


def table(env: str, records: Sequence[Record]) -> str:
    """Returns a row per algorithm: mean ± std over seeds of test success in percent, sampled and greedy, by filter."""
    config: RunConfig = build_config(preset(env))
    start = " / ".join(f"{100 * statistics.mean(r[way][0] for r in records):.1f} %" for way in WAYS)
    # The scale when the runs were played: the instances may have changed since.
    scale = records[0].get("scale") or scale_line(find_baselines(config))
    sampled = way(False, config.eval_temperature)
    head = [f"{how}, {filter_}" for filter_ in FILTERS.values() for how in (sampled, way(True))]
    lines = [
        f"### {env}",
        "",
        f"{scale}. Before training ({sampled} / {way(True)}): {start}.",
        "",
        f"| algorithm | {' | '.join(head)} | updates | seeds |",
        f"|---|{'---|' * len(head)}---|---|",
    ]
    for algorithm in sorted({r["algorithm"] for r in records}):
        mine = [r for r in records if r["algorithm"] == algorithm]
        cells = [mean_and_std([r[way][1] for r in mine if r["filter"] == f]) for f in FILTERS for way in WAYS]
        updates = sorted(r["iterations"] for r in mine)
        seeds = sorted({len([r for r in mine if r["filter"] == f]) for f in FILTERS})
        lines.append(f"| `{algorithm}` | {' | '.join(cells)} | {span(updates)} | {span(seeds)} |")
    return "\n".join(lines) + "\n"


def mean_and_std(successes: Sequence[float]) -> str:
    """Formats mean and std in percent, with ddof = 1: `62.8 ± 2.8`; – without runs."""
    if not successes:
        return "–"
    mean = f"{100 * statistics.mean(successes):.1f}"
    return mean if len(successes) == 1 else f"{mean} ± {100 * statistics.stdev(successes):.1f}"


def span(sorted_numbers: Sequence[int]) -> str:
    """Formats a range: `24`, or `24–27`."""
    first, last = sorted_numbers[0], sorted_numbers[-1]
    return str(first) if first == last else f"{first}–{last}"
