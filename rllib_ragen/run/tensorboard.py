"""The TensorBoard log of a run: curves, a trajectory of every iteration as text, and two figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rllib_ragen.config.printable import safe
from rllib_ragen.diagnostics.information import Regime
from rllib_ragen.diagnostics.information_probe import SAMPLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
_PARTS = ("rollout", "wait", "update", "diagnostics", "sync")
_MAX_SHOWN = 20_000
"""Most characters of one reply or prompt: chosen freely; TensorBoard renders the text for every request."""
_X, _Y, _REGIME = "conditional_entropy_token", "information_share", "regime"


class TensorBoardLog:
    """A writer of event files. Figures need matplotlib, and are drawn when information has been measured."""

    def __init__(self, folder: Path, purge_step: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=purge_step)
        self._draws = find_spec("matplotlib") is not None

    def curves(self, iteration: int, values: Mapping[str, object]) -> None:
        """Writes the entries of `values` that are numbers, by tag."""
        for tag, value in values.items():
            if isinstance(value, (int, float)):
                self._writer.add_scalar(tag, value, iteration)
        self._writer.flush()

    def sample(self, iteration: int, record: Row) -> None:
        """Writes one trajectory, a record of `sample_records`."""
        self._writer.add_text("trajectory", as_text(record), iteration)

    def figures(self, iteration: int, rows: Sequence[Row]) -> None:
        """Draws regimes and times of the training rows."""
        if not self._draws:
            return
        for sample in SAMPLES:
            self._writer.add_figure(f"regime/{sample}", regime_figure(rows, sample), iteration)
        self._writer.add_figure("time/of_an_iteration", time_figure(rows), iteration)

    def close(self) -> None:
        """Flushes and closes."""
        self._writer.close()


def as_text(record: Row) -> str:
    """Returns Markdown with every line of a model or a task in an indented code block, which TensorBoard does not
    render.
    """
    parts = [f"group {record['group_id']}, return {record['return']:g}, {record['stop_reason']}"]
    for number, turn in enumerate(record["turns"], start=1):
        parts += [f"turn {number}, reward {turn['reward']:g}", _code(turn["prompt"]), "reply", _code(turn["reply"])]
    return "\n\n".join(parts)


def regime_figure(rows: Sequence[Row], sample: str) -> Figure:
    """Draws the measurements in the plane of entropy and information, later ones darker, coloured by their regime."""
    measured = [row for row in rows if row.get(f"{sample}_{_REGIME}") is not None]
    numbers = np.array([[row[f"{sample}_{name}"] for name in (_X, _Y, _REGIME)] for row in measured], np.float64)
    figure, axes = _figure()
    for regime in Regime:
        chosen = numbers[:, 2] == regime if len(numbers) else np.zeros(0, np.bool_)
        if chosen.any():
            shades = np.linspace(0.3, 1, len(numbers))[chosen]
            axes.scatter(numbers[chosen, 0], numbers[chosen, 1], alpha=shades, color=f"C{regime}", label=regime.label)
    axes.set(xlabel="H(Z|X), nats per token", ylabel="I(X;Z) / H(X)", xlim=(0, None), ylim=(None, 1.08))
    axes.legend(title="later is darker")
    return figure


def time_figure(rows: Sequence[Row]) -> Figure:
    """Draws the parts of each iteration's time."""
    # Rollouts beside the update take no time of their own; what is left of them is the wait.
    beside = any(row.get("time_wait_s") is not None for row in rows)
    parts = [part for part in _PARTS if part != ("rollout" if beside else "wait")]
    layers = [[row.get(f"time_{part}_s") or 0.0 for row in rows] for part in parts]
    figure, axes = _figure()
    axes.stackplot([row["iteration"] for row in rows], *layers, labels=parts)
    axes.set(xlabel="iteration", ylabel="s", ylim=(0, None))
    axes.legend(loc="upper left")
    return figure


def _figure() -> tuple[Figure, Axes]:
    # Not pyplot: it would keep figures, and ask for a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def _code(text: str) -> str:
    lines = [f"    {safe(line)}" for line in text[:_MAX_SHOWN].splitlines() or [""]]
    if len(text) > _MAX_SHOWN:
        lines += ["", f"… {len(text) - _MAX_SHOWN:,} more characters in trajectories.jsonl"]
    return "\n".join(lines)
