"""Charts as inline SVG by matplotlib, with colours as CSS variables of the page, light or dark."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rllib_ragen.report.data import Series

INK, GRID = "#010203", "#010204"
SERIES = [f"#0a0b0{k}" for k in range(8)]
"""Placeholder colours that become the CSS variables --s0 … --s7; INK and GRID become --ink and --grid."""
STYLES = ("-", "--", ":", "-.")
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rllib_ragen",
    "text.parse_math": False,  # names may hold a dollar sign
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
}
_numbers = itertools.count()


@dataclass(frozen=True)
class Line:
    """A metric of one group of runs."""

    label: str
    """Entry in the legend; empty: none."""
    colour: int
    style: int
    curves: list[tuple[Series, Series]]
    """Curves (x, y) of the runs."""
    mean: tuple[Series, Series, Series]
    """Mean and std over the runs: (x, mean, std)."""


def line_chart(
    lines: Sequence[Line],
    references: dict[str, float],
    unit: str,
    *,
    markers: bool = False,
    x_label: str = "iteration",
) -> str:
    """Draws means with bands of ± std over runs, each run as a thin line, and named horizontal reference lines."""
    with _axes(width=4.3, height=2.5) as (axes, done):
        for line in lines:
            colour, style = SERIES[line.colour % len(SERIES)], STYLES[line.style % len(STYLES)]
            if len(line.curves) > 1:
                for x, y in line.curves:
                    axes.plot(x, y, color=colour, linestyle=style, linewidth=0.6, alpha=0.35)
            x, mean, std = line.mean
            axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
            axes.plot(x, mean, color=colour, linestyle=style, linewidth=1.6, label=line.label or None,
                      marker="o" if markers or len(x) == 1 else None, markersize=3)  # fmt: skip
        for name, value in references.items():
            axes.axhline(value, color=INK, linewidth=0.8, linestyle=(0, (2, 3)), alpha=0.7)
            axes.annotate(name, (1, value), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7.5)
        _whole_numbers(axes, x_label)
        axes.set_ylabel(unit)
        axes.margins(y=0.1)
        if any(line.label for line in lines):
            axes.legend(loc="best", handlelength=2.2)
    return done()


def stacked_chart(x: Series, layers: dict[str, Series], unit: str) -> str:
    """Draws a stacked area chart."""
    with _axes(width=4.3, height=2.5) as (axes, done):
        axes.stackplot(x, *layers.values(), labels=list(layers), colors=SERIES, alpha=0.75, linewidth=0)
        _whole_numbers(axes, "iteration")
        axes.set_ylabel(unit)
        # Above: inside it would lie on a layer wherever it is.
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(layers), columnspacing=1.2, handlelength=1.2)
    return done()


def map_chart(
    points: dict[str, tuple[int, Series, Series]], x_limit: float, y_limit: float, corners: Sequence[str]
) -> str:
    """Draws paths through the plane of entropy and information, fading in with time, and its four named quarters.

    Args:
        points: (colour, entropies, informations) by label, in order of time.
        x_limit, y_limit: thresholds of high entropy and information.
        corners: names of top right, bottom right, top left, bottom left.
    """
    with _axes(width=4.3, height=3.3) as (axes, done):
        for label, (colour, x, y) in points.items():
            axes.plot(x, y, color=SERIES[colour % len(SERIES)], linewidth=0.8, alpha=0.5)
            dots = axes.scatter(x, y, s=26, color=SERIES[colour % len(SERIES)], label=label)
            dots.set_alpha(np.linspace(0.25, 1, len(x)).tolist())
            dots.set_linewidth(0)
        axes.axvline(x_limit, color=INK, linewidth=0.8, linestyle=(0, (2, 3)))
        axes.axhline(y_limit, color=INK, linewidth=0.8, linestyle=(0, (2, 3)))
        for name, (x_at, y_at) in zip(corners, [(1, 1), (1, 0), (0, 1), (0, 0)], strict=True):
            axes.annotate(name, (0.01 + 0.98 * x_at, 0.03 + 0.94 * y_at), xycoords="axes fraction", fontsize=7.5,
                          ha="right" if x_at else "left", va="top" if y_at else "bottom", alpha=0.75)  # fmt: skip
        xs = np.concatenate([x for _, x, _ in points.values()])
        axes.set_xlim(0, max(2 * x_limit, 1.15 * float(xs.max())))
        axes.set_ylim(min(0.0, *(float(y.min()) for _, _, y in points.values())), 1.08)
        axes.set_xlabel("H(Z|X), nats per token")
        axes.set_ylabel("I(X;Z) / H(X)")
        if len(points) > 1:
            axes.legend(loc="center right")
    return done()


def timeline_chart(events: Sequence[tuple[str, str, int, int]], last: int) -> str:
    """Draws one line per alarm, with a mark at each time that it went off.

    Args:
        events: (alarm, mode, iteration, colour of its run).
        last: iteration at the end of the axis.
    """
    names = sorted({name for name, *_ in events}, reverse=True)
    with _axes(width=8.8, height=0.7 + 0.28 * len(names)) as (axes, done):
        for name, mode, iteration, colour in events:
            axes.plot(iteration, names.index(name), marker="X" if mode == "stop" else "o", markersize=7,
                      color=SERIES[colour % len(SERIES)], linewidth=0)  # fmt: skip
        axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.set_xlim(0, max(1, last) * 1.02)
        _whole_numbers(axes, "iteration")
    return done()


def _whole_numbers(axes: Axes, label: str) -> None:
    axes.set_xlabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


@contextmanager
def _axes(width: float, height: float) -> Iterator[tuple[Axes, _Done]]:
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
        done = _Done()
        yield axes, done
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
        done.svg = _inline(buffer.getvalue())


class _Done:
    svg = ""

    def __call__(self) -> str:
        return self.svg


def _inline(svg: str) -> str:
    """Returns only the svg element, coloured by CSS variables, scaling with the page, with ids unique among charts."""
    svg = svg[svg.index("<svg") :]
    svg = svg.replace(INK, "var(--ink)").replace(GRID, "var(--grid)")
    svg = re.sub(r"#0a0b0(\d)", r"var(--s\1)", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"', "", svg, count=2).replace("<svg ", '<svg role="img" ', 1)
    used = set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", svg))
    names = {name for pair in used for name in pair if name}
    number = next(_numbers)
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="c{number}-{m[1]}"' if m[1] in names else "", svg)
    svg = re.sub(r"url\(#", f"url(#c{number}-", svg)
    return re.sub(r'href="#', f'href="#c{number}-', svg)
