"""Draws held-out success of several runs (seeds) as one PNG: mean, std and each seed, with floor and ceiling.

    python benchmarks/plot_runs.py results/sokoban-0 results/sokoban-1 results/sokoban-2 \\
        --out docs/sokoban.png --floor 6.6 --blind 9.4 --ceiling 97.3

Reads each run folder's progress.jsonl: validation rows (split "val") hold iteration, greedy and success (0 to 1),
training rows iteration and the time since the start. Numbers on the command line are in percent.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
import numpy.typing as npt

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from rllib_ragen.config.load import read_yaml
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.evaluation import way

Series = npt.NDArray[np.float64]
XAxis = Literal["minutes", "iterations"]

COLOURS = {False: "#1f5fa8", True: "#c8641b"}
INK, GREY = "#222222", "#7a7a7a"


@dataclass(frozen=True)
class Curve:
    """Held-out success of one run with one decoding; arrays are [number of validations]."""

    iterations: Series
    minutes: Series
    success: Series
    """Success in percent."""

    def x(self, axis: XAxis) -> Series:
        """Returns the values of the given axis."""
        return self.minutes if axis == "minutes" else self.iterations


def read_curves(folder: Path, split: str, time_key: str) -> dict[bool, Curve]:
    """Reads the run's curves by `greedy`; after a resume the newest row of an iteration counts.

    Raises ValueError if the folder has no progress.jsonl or no validation rows.
    """
    path = folder / "progress.jsonl"
    if not path.is_file():
        raise ValueError(f"{folder} is no run folder: it has no progress.jsonl.")
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    seconds = {int(row["iteration"]): float(row[time_key]) for row in rows if time_key in row}
    found: dict[bool, dict[int, float]] = {False: {}, True: {}}
    for row in rows:
        if row.get("split") == split:
            found[bool(row["greedy"])][int(row["iteration"])] = 100 * float(row["success"])
    if not any(found.values()):
        raise ValueError(f"{path} has no rows of split {split!r}: was the run validated (eval.interval)?")
    return {greedy: _curve(points, seconds) for greedy, points in found.items() if points}


def _curve(points: dict[int, float], seconds: dict[int, float]) -> Curve:
    iterations = sorted(points)
    minutes = [0.0 if i == 0 else seconds.get(i, np.nan) / 60 for i in iterations]
    return Curve(np.array(iterations, float), np.array(minutes), np.array([points[i] for i in iterations]))


def mean_curve(curves: Sequence[Curve], axis: XAxis) -> tuple[Series, Series, Series]:
    """Returns (x, mean, std) at the iterations that every run validated; std over runs with ddof = 1, 0 for one run."""
    common = sorted(set.intersection(*[set(curve.iterations.tolist()) for curve in curves]))
    at = [np.isin(curve.iterations, common) for curve in curves]
    xs = np.stack([curve.x(axis)[chosen] for curve, chosen in zip(curves, at, strict=True)])
    success = np.stack([curve.success[chosen] for curve, chosen in zip(curves, at, strict=True)])
    std = success.std(0, ddof=1) if len(curves) > 1 else np.zeros(len(common))
    return xs.mean(0), success.mean(0), std


def names_of(folders: Sequence[Path]) -> dict[bool, str]:
    """Returns the names of the decodings, by `greedy`, with the temperature in the runs' config.yaml."""
    configs = [folder / "config.yaml" for folder in folders]
    if not all(path.is_file() for path in configs):
        return {False: "sampled", True: way(True)}
    temperatures = [RunConfig.model_validate(read_yaml(path)).eval_temperature for path in configs]
    return {False: way(False, *temperatures), True: way(True)}


def draw(
    axes: Axes, runs: Sequence[dict[bool, Curve]], axis: XAxis, lines: dict[str, float], names: dict[bool, str]
) -> None:
    """Draws curves and reference lines, each named at its right end."""
    labels: list[tuple[float, str, str]] = [(y, f"{name} {y:.0f} %", GREY) for name, y in lines.items()]
    for y in lines.values():
        axes.axhline(y, color=GREY, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
    for greedy in (False, True):
        curves = [run[greedy] for run in runs if greedy in run]
        if not curves:
            continue
        colour = COLOURS[greedy]
        for curve in curves:
            axes.plot(curve.x(axis), curve.success, color=colour, linewidth=0.9, alpha=0.4, zorder=2)
        x, mean, std = mean_curve(curves, axis)
        axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.13, linewidth=0, zorder=2)
        axes.plot(x, mean, color=colour, linewidth=2.6, marker="o", markersize=4.5, zorder=3, clip_on=False)
        labels.append((float(mean[-1]), f"{names[greedy]}: {mean[0]:.0f} → {mean[-1]:.0f} %", colour))
    for (_, text, colour), y in zip(labels, spaced([label[0] for label in labels], gap=5.5), strict=True):
        axes.annotate(
            text, (1.015, y), xycoords=("axes fraction", "data"), color=colour, va="center", fontsize=11,
            fontweight="bold" if colour != GREY else "normal", annotation_clip=False,
        )  # fmt: skip


def spaced(heights: Sequence[float], gap: float) -> list[float]:
    """Moves heights apart in a sweep from below, so that labels do not overlap."""
    placed = list(heights)
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    for lower, upper in pairwise(order):
        placed[upper] = max(placed[upper], placed[lower] + gap)
    return placed


def figure(
    runs: Sequence[dict[bool, Curve]],
    axis: XAxis,
    lines: dict[str, float],
    title: str,
    out: Path,
    names: dict[bool, str],
) -> None:
    """Writes the PNG, 1600 pixels wide: sharp when a page shows it at 800."""
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 11, "text.color": INK, "axes.labelcolor": INK})
    picture, axes = plt.subplots(figsize=(8, 4.3), dpi=200, facecolor="white")
    draw(axes, runs, axis, lines, names)
    axes.set_ylim(0, 103)
    axes.set_xlim(left=0)
    axes.set_xlabel("training time, minutes" if axis == "minutes" else "iteration")
    axes.set_yticks(range(0, 101, 20), [f"{y} %" for y in range(0, 101, 20)])
    axes.grid(axis="y", color="#ececec", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, colors=INK)
    seeds = f"mean ± std of {len(runs)} seeds; thin: each seed" if len(runs) > 1 else "one seed"
    axes.set_title(f"{title} ({seeds})", loc="left", fontsize=12, pad=10)
    picture.subplots_adjust(left=0.075, right=0.72, top=0.9, bottom=0.13)
    out.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(out)
    plt.close(picture)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, one per seed")
    parser.add_argument("--out", type=Path, required=True, help="PNG to write")
    parser.add_argument("--x", choices=["minutes", "iterations"], default="minutes", help="horizontal axis")
    parser.add_argument("--floor", type=float, help="success of random actions, percent")
    parser.add_argument("--blind", type=float, help="success of the best policy that cannot see, percent")
    parser.add_argument("--forced", type=float, help="success at T = 1 of the untrained model, plan forced, percent")
    parser.add_argument("--forced-greedy", type=float, help="the same, greedy")
    parser.add_argument("--ceiling", type=float, help="best possible success under the caps, percent")
    parser.add_argument("--title", default="Success on held-out maps", help="headline")
    parser.add_argument("--split", default="val", help="which rows of progress.jsonl")
    parser.add_argument("--time-key", default="time_s", help="key of the seconds since the start in training rows")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws the plot → 2 and one sentence on bad input."""
    options = parse(arguments)
    marks = {"random floor": options.floor, "best blind policy": options.blind, "best possible": options.ceiling}
    marks |= {"plan forced, T = 1": options.forced, "plan forced, greedy": options.forced_greedy}
    try:
        runs = [read_curves(folder, options.split, options.time_key) for folder in options.runs]
        if options.x == "minutes" and any(np.isnan(c.minutes).any() for run in runs for c in run.values()):
            raise ValueError(f"a validated iteration has no {options.time_key!r}; use --x iterations or --time-key.")
    except ValueError as error:
        print(f"plot_runs: {error}", file=sys.stderr)
        return 2
    lines = {name: height for name, height in marks.items() if height is not None}
    figure(runs, options.x, lines, options.title, options.out, names_of(options.runs))
    print(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
