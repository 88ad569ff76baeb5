"""The display of a run: a live panel on a terminal, one plain line per iteration anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from rllib_ragen.config.printable import safe
from rllib_ragen.diagnostics.metrics import label_of

if TYPE_CHECKING:
    from rich.panel import Panel

Metrics = Mapping[str, Any]
_BARS = "▁▂▃▄▅▆▇█"
_TREND_LENGTH = 40
"""Iterations of the small curve: chosen freely, to fit beside the numbers."""


@dataclass(frozen=True)
class ConsoleState:
    """The progress of a run after an iteration."""

    iteration: int
    iterations: int
    elapsed_s: float
    left_s: float
    """Estimated seconds to the last iteration or the time limit, whichever is nearer."""
    metrics: Metrics


def percent(value: float) -> str:
    """Formats a rate: 0.414 → `41.4 %`."""
    return f"{100 * value:.1f} %"


def duration(seconds: float) -> str:
    """Formats seconds: 432 → `7:12`, 4032 → `1:07:12`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _kept(metrics: Metrics) -> str:
    """Returns `3/4`; where the members of no group differ, that they are alike: what is kept then teaches nothing."""
    if metrics["num_groups"] and metrics.get("zero_spread_groups") == metrics["num_groups"]:
        return f"all {metrics['num_groups']:.0f} alike"
    return f"{metrics['kept_groups']:.0f}/{metrics['num_groups']:.0f}"


_FIELDS: tuple[tuple[str, Callable[[Metrics], str]], ...] = (
    ("success", lambda m: percent(m["success"])),
    ("valid_ratio", lambda m: percent(m["valid_ratio"])),
    ("return_mean", lambda m: f"{m['return_mean']:.2f}"),
    ("group_reward_std", lambda m: f"{m['group_reward_std']:.2f}"),
    ("kept_groups", _kept),
    ("entropy", lambda m: f"{m['entropy']:.3f}"),
    ("clip_fraction", lambda m: f"{m['clip_fraction']:.3f}"),
    ("reply_tokens_per_s", lambda m: f"{m['reply_tokens_per_s']:,.0f}"),
    ("num_failed", lambda m: f"{m['num_failed']:.0f}"),
)
"""Metrics on the display, each with its format."""


def shown(metrics: Metrics) -> list[tuple[str, str]]:
    """Returns (label, value) of the metrics that are there; `failed` only if some are. At the end of several
    environments the success of each, and the levels that are open.
    """
    found = [
        (label_of(name), text(metrics))
        for name, text in _FIELDS
        if metrics.get(name) is not None and (name != "num_failed" or metrics[name])
    ]
    for name, value in metrics.items():
        prefix, slash, last = name.rpartition("/")
        if slash and last == "success" and value is not None:
            found.append((prefix, percent(value)))
        if last == "levels_open" and value is not None:
            levels = sum(other.startswith(f"{prefix}{slash}level_") and other.endswith("_groups") for other in metrics)
            found.append((f"{prefix} level".strip(), f"{value:.0f}/{levels}"))
    return found


class Display:
    """A display of plain lines, flushed, without control codes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def say(self, text: str) -> None:
        """Prints a text that stays."""
        print(safe(text), file=self._out, flush=True)

    def iteration(self, progress: ConsoleState) -> None:
        """Shows the progress of the run."""
        width = len(str(progress.iterations))
        values = "  ".join(f"{label} {value}" for label, value in shown(progress.metrics))
        self.say(
            f"iteration {progress.iteration:{width}}/{progress.iterations}  {values}  left {duration(progress.left_s)}"
        )

    def close(self) -> None:
        """Ends the display."""


class LiveDisplay(Display):
    """A display with a panel at the bottom of the terminal; texts scroll above it."""

    def __init__(self, out: TextIO, title: str) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(out)
        self._title = title
        self._trend: list[float] = []
        self._console = Console(file=out, highlight=False, soft_wrap=True)
        self._live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)

    def say(self, text: str) -> None:
        # Soft: a line break would tear commands, which are there to be copied.
        self._console.print(safe(text), markup=False, soft_wrap=True)

    def iteration(self, progress: ConsoleState) -> None:
        if not self._live.is_started:
            self._live.start()
        if "success" in progress.metrics:
            self._trend = [*self._trend, progress.metrics["success"]][-_TREND_LENGTH:]
        self._live.update(self._panel(progress), refresh=True)

    def close(self) -> None:
        self._live.stop()

    def _panel(self, progress: ConsoleState) -> Panel:
        from rich.console import Group
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        grid = Table.grid(padding=(0, 3), expand=False)
        fields = [f"[dim]{label:14}[/]{value:>9}" for label, value in shown(progress.metrics)]
        for start in range(0, len(fields), 2):
            grid.add_row(*fields[start : start + 2])
        bar = Table.grid()  # a bar by itself does not end its line
        bar.add_row(ProgressBar(total=progress.iterations, completed=progress.iteration, width=64))
        trend = f"[dim]{'success so far':14}[/]  {sparkline(self._trend)}"
        times = f"{duration(progress.elapsed_s)} gone, {duration(progress.left_s)} left"
        title = f"{self._title} · iteration {progress.iteration}/{progress.iterations} · {times}"
        return Panel(Group(bar, grid, trend), title=title, title_align="left", width=72)


def sparkline(values: list[float]) -> str:
    """Draws one bar per value in [0, 1]."""
    return "".join(_BARS[min(int(value * len(_BARS)), len(_BARS) - 1)] for value in values)


def make_display(title: str, out: TextIO | None = None) -> Display:
    """Makes a display, a live one if `out` (default: standard output) is a terminal."""
    out = out or sys.stdout
    return LiveDisplay(out, title) if out.isatty() else Display(out)
