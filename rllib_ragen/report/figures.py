"""The charts of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rllib_ragen.config.schema import DiagnosticsSection
from rllib_ragen.diagnostics.gradient_buckets import NUM_BUCKETS, TERMS
from rllib_ragen.diagnostics.information import Regime
from rllib_ragen.diagnostics.information_probe import SAMPLES
from rllib_ragen.diagnostics.metrics import label_of, unit_of
from rllib_ragen.report.charts import Line, line_chart, map_chart, stacked_chart, timeline_chart
from rllib_ragen.report.data import Group, Run, Series, aligned
from rllib_ragen.run.evaluation import marks, way


@dataclass(frozen=True)
class Figure:
    """A chart with its title."""

    title: str
    svg: str
    note: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Curves:
    """A chart of training metrics of one unit, one line style per metric and one colour per group."""

    metrics: tuple[str, ...]
    title: str = ""
    """Title; empty: the label of the only metric."""
    note: str = ""
    markers: bool = False

    @property
    def heading(self) -> str:
        """Heading of the chart."""
        return self.title or label_of(self.metrics[0]).capitalize()

    @property
    def labels(self) -> dict[str, str]:
        """Entries of the metrics in the legend; empty for a single metric."""
        return {name: label_of(name) if len(self.metrics) > 1 else "" for name in self.metrics}


LEARNING = (
    Curves(("return_mean",), note="Mean over the trajectories of an iteration, penalties included."),
    Curves(("group_reward_std", "group_reward_std_kept"), "Reward std in groups"),
    Curves(("kept_groups", "zero_spread_groups"), "Groups"),
    Curves(("entropy",)),
    Curves(("grad_norm",)),
    Curves(("clip_fraction",)),
    Curves(("logprob_gap_mean", "logprob_gap_max"), "Sampler against learner"),
)
OF_AN_ENVIRONMENT = LEARNING[:3]
"""What of it there is of each of several environments: they share the learner."""
REPLIES = (
    Curves(("reply_tokens_mean",)),
    Curves(("turns_mean", "actions_mean"), "Turns and actions"),
    Curves(("valid_ratio", "finished_ratio"), "Valid turns"),
    Curves(("empty_thought_ratio", "repeated_ratio"), "Degenerate replies"),
)
INFORMATION = (
    Curves(("first_turn_conditional_entropy_token", "first_turn_marginal_entropy_token"),
            "Entropies of reasoning, first turns", markers=True),
    Curves(("first_turn_mutual_information_seq", "any_turn_mutual_information_seq"),
            "Information in reasoning", markers=True),
    Curves(("first_turn_retrieval_1", "any_turn_retrieval_1", "first_turn_retrieval_chance_1"),
            "Prompts recognised by their thoughts", markers=True),
    Curves(("first_turn_information_z_ema_token", "any_turn_information_z_ema_token"), "Information, z-score",
            "Of these numbers the one that went most closely with the reward in RAGEN-2.", markers=True),
)  # fmt: skip
GRADIENTS = (
    Curves(("bucket_1_task_norm", f"bucket_{NUM_BUCKETS}_task_norm"), "Task gradient over the run",
            "Bucket 1 has the groups of the smallest reward std.", markers=True),
)  # fmt: skip
THROUGHPUT = (Curves(("reply_tokens_per_s",), "Throughput"),)


def success_figure(groups: Sequence[Group]) -> Figure | None:
    """Draws validation success by group and decoding, with floor and ceiling; None without a validation."""
    lines = []
    for colour, group in enumerate(groups):
        for style, greedy in enumerate([False, True]):
            curves = [curve for run in group.runs if len((curve := run.success("val", greedy))[0])]
            if curves:
                label = way(greedy, *temperatures(groups)) if colour == 0 else ""
                lines.append(Line(label, colour, style, curves, aligned(curves)))
    if not lines:
        return None
    note = "Validation instances, never trained on. Band: ± std over the runs of a group (seeds), not over instances."
    return Figure("Success", line_chart(lines, references(groups), "%", markers=True), note)


def temperatures(groups: Sequence[Group]) -> list[float]:
    """Returns those at which the runs' evaluations sample, each once."""
    return sorted({run.config.eval_temperature for group in groups for run in group.runs})


def training_success_figure(groups: Sequence[Group]) -> Figure | None:
    """Draws the success of training rollouts."""
    lines = _lines(groups, {"success": ""}, scale=100)
    sampled = sorted({run.config.rollout.temperature for group in groups for run in group.runs})
    note = f"Training rollouts, {way(False, *sampled)}."
    return Figure("Success while training", line_chart(lines, references(groups), "%"), note) if lines else None


def curve_figures(groups: Sequence[Group], wanted: Sequence[Curves]) -> list[Figure]:
    """Returns one chart for each of `wanted` that was measured at all."""
    found = [(curves, _lines(groups, curves.labels)) for curves in wanted]
    return [
        Figure(curves.heading, line_chart(lines, {}, unit_of(curves.metrics[0]), markers=curves.markers), curves.note)
        for curves, lines in found
        if lines
    ]


def regime_figures(groups: Sequence[Group]) -> list[Figure]:
    """Says where each run is between template collapse and diverse reasoning, for both samples of turns."""
    section = next((run.config.diagnostics for group in groups for run in group.runs), DiagnosticsSection())
    corners = [Regime.DIVERSE_REASONING, Regime.TEMPLATE_COLLAPSE, Regime.COMPRESSED_REASONING]
    names = [regime.label for regime in (*corners, Regime.LOW_ENTROPY_COLLAPSE)]
    figures = []
    for sample in SAMPLES:
        points = {}
        for colour, group in enumerate(groups):
            for run in group.runs:
                (at, x), (also, y) = (run.series(f"{sample}_{n}") for n in _MAP_METRICS)
                both = np.intersect1d(at, also)
                if len(both):
                    points[run.name] = (colour, x[np.isin(at, both)], y[np.isin(also, both)])
        if points:
            svg = map_chart(points, section.high_entropy, section.high_information, names)
            note = "Each dot is one measurement, later ones darker. Dashed: where high begins."
            figures.append(Figure(f"Regime, {sample.replace('_', ' ')}s", svg, note))
    return figures


def bucket_figure(groups: Sequence[Group]) -> Figure | None:
    """Draws gradient norms of the loss's terms by bucket of reward std; None if they were not measured."""
    lines = []
    for colour, group in enumerate(groups):
        for style, term in enumerate(TERMS):
            curves = [curve for run in group.runs if len((curve := _by_bucket(run, term))[0])]
            if curves:
                lines.append(Line(term if colour == 0 else "", colour, style, curves, aligned(curves)))
    if not lines:
        return None
    note = "Mean over the run's measurements, as the terms count in the loss; buckets of equally many groups."
    chart = line_chart(lines, {}, "norm", markers=True, x_label="bucket, from the smallest reward std to the largest")
    return Figure("Gradients by reward std", chart, note)


def _by_bucket(run: Run, term: str) -> tuple[Series, Series]:
    """Returns (bucket numbers, means over the measurements)."""
    found = [(k, run.series(f"bucket_{k}_{term}_norm")[1]) for k in range(1, NUM_BUCKETS + 1)]
    points = np.array([(k, values.mean()) for k, values in found if len(values)], np.float64).reshape(-1, 2)
    return points[:, 0], points[:, 1]


_PARTS = ("update", "diagnostics", "sync")
_MAP_METRICS = ("conditional_entropy_token", "information_share")


def alarm_figure(groups: Sequence[Group]) -> Figure | None:
    """Draws when alarms went off; None if none did."""
    events = [
        (str(alarm["alarm"]), str(alarm["mode"]), int(alarm["iteration"]), colour)
        for colour, group in enumerate(groups)
        for run in group.runs
        for alarm in run.alarms
    ]
    last = max((row["iteration"] for group in groups for run in group.runs for row in run.rows), default=1)
    return Figure("Alarms", timeline_chart(events, last), wide=True) if events else None


def timing_figures(groups: Sequence[Group]) -> list[Figure]:
    """Draws the parts of an iteration's time, one chart per group (its first run)."""
    figures = []
    for group in groups:
        x, layers = _times(group.runs[0])
        if len(x):
            title = "Time of an iteration" + (f", {group.label}" if len(groups) > 1 else "")
            figures.append(Figure(title, stacked_chart(x, layers, "s")))
    return figures


def references(groups: Sequence[Group]) -> dict[str, float]:
    """Returns floor and ceiling in percent if all runs have the same, else none."""
    found = {tuple(marks(run.baselines).items()) for group in groups for run in group.runs}
    only = found.pop() if found else ()
    return {} if found else {name: 100 * rate for name, rate in only}


def _lines(groups: Sequence[Group], metrics: dict[str, str], scale: float = 1) -> list[Line]:
    lines = []
    for colour, group in enumerate(groups):
        for style, (metric, label) in enumerate(metrics.items()):
            curves = [(x, scale * y) for run in group.runs for x, y in [run.series(metric)] if len(x)]
            if curves:
                # The page's colour key tells groups apart: one entry per metric is enough.
                lines.append(Line(label if colour == 0 else "", colour, style, curves, aligned(curves)))
    return lines


def _times(run: Run) -> tuple[Series, dict[str, Series]]:
    rows = [row for row in run.rows if row.get("time_rollout_s") is not None]
    # Rollouts beside the update take no time of their own; what is left of them is the wait.
    beside = any(row.get("time_wait_s") is not None for row in rows)
    parts = ["wait" if beside else "rollout", *_PARTS]
    layers = {part: np.array([row.get(f"time_{part}_s") or 0.0 for row in rows]) for part in parts}
    return np.array([row["iteration"] for row in rows], np.float64), layers
