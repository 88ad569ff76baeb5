"""The TensorBoard log of a run: curves, a trajectory of every iteration as text, and two figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragen_envs.tree import Tree
from rllib_ragen.config.printable import word
from rllib_ragen.diagnostics.information import Regime
from rllib_ragen.diagnostics.information_probe import REGIME, SAMPLES
from rllib_ragen.run.trackers.table import as_code
from rllib_ragen.run.trackers.tracker import TrackedRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
_FOLDER = "tensorboard"
_PARTS = ("rollout", "wait", "update", "diagnostics", "sync")
_FIRST_REGIME = f"{next(iter(SAMPLES))}_{REGIME}"
_X, _Y, _REGIME = "conditional_entropy_token", "information_share", REGIME


def check() -> None:
    """Checks nothing: TensorBoard asks nothing of the environment."""


def how_to_see(folder: Path) -> str:
    """Says how one sees what is there of the run in `folder`."""
    return f"tensorboard --logdir {word(folder / _FOLDER)}"


class TensorBoardTracker:
    """Writes event files. Figures are drawn where matplotlib is installed, when information has been measured."""

    key = None

    def __init__(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = run.folder / _FOLDER
        # What was logged after the checkpoint will be done again.
        self._writer = SummaryWriter(str(folder), purge_step=run.start + 1 if folder.is_dir() else None)
        self._history = run.history
        self._draws = find_spec("matplotlib") is not None

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        """Writes curves by tag, and figures where a regime is among them."""
        for tag, value in values.items():
            self._writer.add_scalar(tag, value, iteration)
        if any(tag.endswith(f"_{_REGIME}") for tag in values):
            self.figures(iteration, self._history())
        self._writer.flush()

    def log_trajectories(self, iteration: int, records: Sequence[Tree]) -> None:
        """Writes the first trajectory as text."""
        if records:
            self._writer.add_text("trajectory", as_text(records[0]), iteration)

    def figures(self, iteration: int, rows: Sequence[Row]) -> None:
        """Draws regimes, of several environments each one's, and times of the training rows so far."""
        if not self._draws:
            return
        for prefix, own in _by_environment(rows).items():
            for sample in SAMPLES:
                self._writer.add_figure(f"{prefix}regime/{sample}", regime_figure(own, sample), iteration)
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
        parts += [f"turn {number}, reward {turn['reward']:g}", as_code(turn["prompt"]), "reply", as_code(turn["reply"])]
    return "\n\n".join(parts)


def _measured_prefixes(row: Row) -> list[str]:
    """Returns what stands before the names of environments whose information was measured: `sokoban/`, or nothing."""
    names = [name for name, value in row.items() if value is not None]
    return [name.removesuffix(_FIRST_REGIME) for name in names if name.rpartition("/")[2] == _FIRST_REGIME]


def _by_environment(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Returns each environment's rows under the names of a run of it alone."""
    prefixes = dict.fromkeys(prefix for row in rows for prefix in _measured_prefixes(row))
    return {
        prefix: [{name.removeprefix(prefix): row[name] for name in row if name.startswith(prefix)} for row in rows]
        for prefix in prefixes
    }


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
