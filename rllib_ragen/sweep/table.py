"""The configurations of a sweep side by side, best first."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial

from rllib_ragen.sweep.spec import MINIMISED, SweepSpec
from rllib_ragen.sweep.study import SweepStudy, values_of


class SweepTable:
    """The table of configurations, for a terminal, a CSV file and a page."""

    def __init__(self, study: SweepStudy, spec: SweepSpec) -> None:
        self._spec = spec
        self.names = list(spec.dimensions())
        objective = spec.objectives[0]
        worst_last = -1.0 if objective in MINIMISED else 1.0
        self.trials = sorted(study.finished(), key=lambda trial: -worst_last * trial.values[0])
        self.others = [trial for trial in study.study.trials if trial.state.is_finished() and not trial.values]

    @property
    def header(self) -> list[str]:
        """Column names of `rows`."""
        return ["trial", *self._spec.objectives, *self.names, "note"]

    def rows(self) -> list[list[str]]:
        """Returns the rows of finished configurations, best first, then of failed ones."""
        return [self._row(trial) for trial in (*self.trials, *self.others)]

    def text(self) -> str:
        """Returns the table as aligned columns."""
        rows = [self.header, *self.rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.header))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(line.rstrip() for line in lines)

    def write_csv(self, path: Path) -> None:
        """Writes one line per configuration, with exact numbers."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            spreads = [f"{name}_spread" for name in self._spec.objectives]
            writer.writerow(["trial", "state", *self._spec.objectives, *spreads, *self.names, "note"])
            for trial in (*self.trials, *self.others):
                values: Sequence[Any] = trial.values or [""] * len(self._spec.objectives)
                stds = [trial.user_attrs.get(f"spread:{name}", "") for name in self._spec.objectives]
                params = [values_of(trial).get(name, "") for name in self.names]
                writer.writerow([trial.number, trial.state.name.lower(), *values, *stds, *params, note_of(trial)])

    def _row(self, trial: FrozenTrial) -> list[str]:
        objectives = [
            _with_std(value, trial.user_attrs.get(f"spread:{name}"))
            for name, value in zip(self._spec.objectives, trial.values or [], strict=False)
        ] or ["-"] * len(self._spec.objectives)
        params = [values_of(trial).get(name, "") for name in self.names]
        told = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in params]
        return [str(trial.number), *objectives, *told, note_of(trial)]


def _with_std(value: float, std: float | None) -> str:
    """Formats a mean over seeds with its std, which one seed does not have."""
    return f"{value:.3g}" if std is None else f"{value:.3g} ± {std:.2g}"


def note_of(trial: FrozenTrial) -> str:
    """Returns why a configuration failed or stopped early; empty if it did not."""
    attrs = trial.user_attrs
    return str(attrs.get("failed") or attrs.get("stopped") or "")
