"""The results of a sweep for people: trials.csv, best.yaml and one offline page."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
import numpy as np
from matplotlib.ticker import NullFormatter

from ragen_envs.tree import Tree
from rllib_ragen.config.load import save_config
from rllib_ragen.run.evaluation import way
from rllib_ragen.sweep.spec import SweepSpec
from rllib_ragen.sweep.study import SweepStudy, values_of
from rllib_ragen.sweep.table import SweepTable
from rllib_ragen.sweep.trial import run_folder_of

_NO_METADATA = ("Creator", "Date", "Format", "Type")
"""Metadata that matplotlib would write into each figure, left out for equal bytes."""
_MIN_FOR_IMPORTANCE = 4
"""Least number of configurations for parameter importances: chosen freely."""


def write_report(spec: SweepSpec, study: SweepStudy, folder: Path) -> None:
    """Writes trials.csv, report.html and, if a configuration succeeded, best.yaml."""
    table = SweepTable(study, spec)
    table.write_csv(folder / "trials.csv")
    best = study.best()
    if best:
        config = spec.config(values_of(best[0]), spec.seeds[0])
        save_config(config, folder / "best.yaml", without=("name", "results_dir"))
    page = resources.files("rllib_ragen.sweep") / "page.html"
    template = jinja2.Environment(autoescape=True).from_string(page.read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        # Optuna calls its matplotlib plots experimental, and they call axes of one value singular.
        warnings.simplefilter("ignore")
        figures = [{"title": title, "svg": draw()} for title, draw in _figures(spec, study, folder)]
    html = template.render(
        spec=spec,
        table=table,
        best=[trial.number for trial in best],
        best_values={name: _told(value) for name, value in values_of(best[0]).items()} if best else {},
        best_yaml=(folder / "best.yaml").read_text(encoding="utf-8") if best else "",
        figures=figures,
    )
    (folder / "report.html").write_text(html, encoding="utf-8")


def _figures(spec: SweepSpec, study: SweepStudy, folder: Path) -> list[tuple[str, Callable[[], str]]]:
    """Returns the learning curves, and Optuna's plots for which there are enough trials: (title, function that
    draws).
    """
    import optuna.visualization.matplotlib as plots
    from optuna.importance import PedAnovaImportanceEvaluator

    finished, done = study.study, study.finished()
    if not done:
        return []
    found = [("Learning curves: validation success, mean and range over seeds", lambda: _curves(spec, study, folder))]
    if len(done) >= _MIN_FOR_IMPORTANCE and len(spec.dimensions()) > 1 and len(spec.objectives) == 1:
        importances = partial(plots.plot_param_importances, finished, evaluator=PedAnovaImportanceEvaluator())
        found.append(("What matters", partial(_drawn, importances)))
    for k, name in enumerate(spec.objectives if len(done) > 1 else ()):
        target: Tree = {} if len(spec.objectives) == 1 else {"target": _nth(k), "target_name": name}
        for title, plot in (("Slices", plots.plot_slice), ("Parallel coordinates", plots.plot_parallel_coordinate)):
            found.append((f"{title}: {name}", partial(_drawn, partial(plot, finished, **target))))
    return found


def _told(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _drawn(plot: Callable[[], object]) -> str:
    return _svg(plot())


def _nth(k: int) -> Callable[[Any], float]:
    return lambda trial: float(trial.values[k])


def _curves(spec: SweepSpec, study: SweepStudy, folder: Path) -> str:
    figure, axes = _plot().subplots(figsize=(9, 4))
    trials = SweepTable(study, spec).trials
    for trial in trials:
        runs = [_validations(run_folder_of(folder, trial.number, seed)) for seed in spec.seeds]
        iterations = sorted(set.intersection(*(set(run) for run in runs)))
        values = np.array([[run[i] for i in iterations] for run in runs])
        axes.plot(iterations, values.mean(0), marker="o", markersize=3, label=f"trial {trial.number}")
        axes.fill_between(iterations, values.min(0), values.max(0), alpha=0.15)
    sampled = way(False, *(spec.config(values_of(t), spec.seeds[0]).eval_temperature for t in trials))
    axes.set(xlabel="iteration", ylabel=f"success ({sampled})")
    axes.legend(fontsize="small", ncols=3)
    return _svg(figure)


def _validations(folder: Path) -> dict[int, float]:
    """Returns the success of sampled replies on the validation instances, by iteration."""
    rows = [json.loads(line) for line in (folder / "progress.jsonl").read_text(encoding="utf-8").splitlines()]
    return {row["iteration"]: row["success"] for row in rows if row.get("split") == "val" and not row["greedy"]}


def _plot() -> Any:
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _svg(drawn: Any) -> str:
    """Renders a figure, or the one of given axes, as SVG text for a page."""
    axes = drawn.ravel()[0] if isinstance(drawn, np.ndarray) else drawn
    figure = axes.figure if hasattr(axes, "figure") and axes.figure is not None else axes
    for part in figure.axes:
        # Less than a decade has so many of these labels that they hide each other.
        part.xaxis.set_minor_formatter(NullFormatter())
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata=dict.fromkeys(_NO_METADATA))
    _plot().close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]
