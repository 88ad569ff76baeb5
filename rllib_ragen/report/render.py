"""The page: tables and charts of runs, and their trajectories, as one HTML file that needs no network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ragen_envs.tree import Tree
from rllib_ragen.config.environments import environments_told
from rllib_ragen.config.yaml_text import dump_yaml
from rllib_ragen.diagnostics.information import Regime
from rllib_ragen.report.data import Group, Run, group_runs
from rllib_ragen.report.figures import (
    GRADIENTS,
    INFORMATION,
    LEARNING,
    REPLIES,
    THROUGHPUT,
    Figure,
    alarm_figure,
    bucket_figure,
    curve_figures,
    regime_figures,
    success_figure,
    temperatures,
    timing_figures,
    training_success_figure,
)
from rllib_ragen.report.parts import environment_figures, labels_of, level_figures, result_parts
from rllib_ragen.report.viewer import to_script_json, viewer_data
from rllib_ragen.run.evaluation import Evaluation, best_on_validation, plus_minus, way
from rllib_ragen.run.several import scales_line

_KINDS = (("val", False), ("val", True), ("test", False), ("test", True))
_PAGE = resources.files("rllib_ragen.report") / "page"


@dataclass(frozen=True)
class Section:
    """A heading with charts and an optional table."""

    id: str
    title: str
    figures: list[Figure]
    text: str = ""
    heads: Sequence[str] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)


def render(runs: Sequence[Run], max_trajectories: int) -> str:
    """Returns the page of one run, or a comparison of several: runs that differ only in their seed share a colour."""
    groups = group_runs(runs)
    ordered = [run for group in groups for run in group.runs]
    data = viewer_data(ordered, max_trajectories)
    script = _file("viewer.js")
    kinds = [kind for kind in _KINDS if any(_of_kind(run, *kind) for run in runs)]
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(_file("page.html"))
    return page.render(
        title=runs[0].name if len(runs) == 1 else f"{len(runs)} runs",
        subtitle=f"{', '.join(sorted({environments_told(run.config) for run in runs}))} · rllib_ragen",
        css=Markup(_file("page.css")),
        script=Markup(script),
        script_hash=f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}",
        data=Markup(to_script_json(data)),
        sections=[section for section in _sections(groups) if section.figures or section.id == "alarms"],
        result_heads=[f"{split}, {way(greedy, *temperatures(groups))}" for split, greedy in kinds],
        result_rows=[row for k, group in enumerate(groups) for run in group.runs for row in _results(run, k, kinds)],
        group_rows=[_spread(g, colour, kinds) for colour, g in enumerate(groups) if len(g.runs) > 1],
        colours=_colours(groups) if len(groups) > 1 else [],
        scale=" ".join(dict.fromkeys(f"{scales_line(run.scales)}." for run in ordered)),
        trajectories_note=_note(data),
        configs=[{"name": run.name, "text": _config_text(run)} for run in ordered],
    )


def _sections(groups: Sequence[Group]) -> list[Section]:
    success = [success_figure(groups), training_success_figure(groups)]
    alarms = [
        (run.name, alarm["iteration"], alarm["alarm"].replace("_", " "), alarm["mode"], alarm["message"])
        for group in groups
        for run in group.runs
        for alarm in run.alarms
    ]
    timeline, buckets = alarm_figure(groups), bucket_figure(groups)
    information = (
        "How much of what the policy thinks depends on its prompt: high H(Z|X) with low I(X;Z) is template collapse,"
        " varied words that say nothing of the state."
    )
    return [
        Section("learning", "Learning", _painted([*filter(None, success), *curve_figures(groups, LEARNING)])),
        Section("curriculum", "Curriculum", _painted(level_figures(groups))),
        *(
            Section(f"environment-{label}", label, _painted(environment_figures(groups, label)))
            for label in labels_of(groups)
        ),
        Section("replies", "Replies", _painted(curve_figures(groups, REPLIES))),
        Section(
            "information",
            "Information in reasoning",
            _painted([*regime_figures(groups), *curve_figures(groups, INFORMATION)]),
            information,
        ),
        Section(
            "gradients",
            "Gradients",
            _painted([buckets, *curve_figures(groups, GRADIENTS)] if buckets else []),
            "Gradient norms of the loss's terms: groups of equal returns have only the regularisers' gradients.",
        ),
        Section(
            "alarms",
            "Alarms",
            _painted([timeline] if timeline else []),
            "Dots warned, crosses ended the run." if timeline else "None went off.",
            heads=("run", "iteration", "alarm", "mode", "what happened"),
            rows=alarms,
        ),
        Section("time", "Time", _painted([*timing_figures(groups), *curve_figures(groups, THROUGHPUT)])),
    ]


def _painted(figures: Sequence[Figure]) -> list[Figure]:
    """Marks the charts' SVG as safe markup: matplotlib has escaped all text in it."""
    return [Figure(figure.title, Markup(figure.svg), figure.note, figure.wide) for figure in figures]


def _of_kind(run: Run, split: str, greedy: bool) -> list[Evaluation]:
    return [found for found in run.evaluations if (found.split, found.greedy) == (split, greedy)]


def _results(run: Run, colour: int, kinds: Sequence[tuple[str, bool]]) -> list[Tree]:
    """Returns the run's line, and one for each of several environments and levels."""
    parts = [_result(part, colour, kinds) | {"name": f"{run.name}: {path}"} for path, part in result_parts(run)]
    return [_result(run, colour, kinds), *parts]


def _result(run: Run, colour: int, kinds: Sequence[tuple[str, bool]]) -> Tree:
    _, regimes = run.series("first_turn_regime")
    best = best_on_validation(run.evaluations)
    return {
        "name": run.name,
        "colour": colour % 8,
        "seed": run.config.seed,
        "iterations": run.rows[-1]["iteration"] if run.rows else 0,
        "minutes": f"{run.rows[-1]['time_s'] / 60:.1f}" if run.rows else "",
        "cells": [_change(_of_kind(run, *kind)) for kind in kinds],
        "best": "" if best is None else f"{100 * best[1]:.1f} % at {best[0]}, highest of {_num_validations(run)}",
        "regime": Regime(int(regimes[-1])).label if len(regimes) else "not measured",
        "alarms": len(run.alarms),
    }


def _num_validations(run: Run) -> int:
    return len({found.iteration for found in run.evaluations if found.split == "val"})


def _change(found: Sequence[Evaluation]) -> str:
    """Returns first and last evaluation in words: `30.0 → 60.0 ± 3.1 % (+30.0 ± 2.8 %; 64 instances)`."""
    if not found:
        return ""
    first, last = found[0], found[-1]
    if last is first:
        return f"{first} ({first.count})"
    difference, error = first.change_to(last)
    return f"{100 * first.success:.1f} → {last} ({100 * difference:+.1f} {plus_minus(error)}; {last.count})"


def _spread(group: Group, colour: int, kinds: Sequence[tuple[str, bool]]) -> Tree:
    cells = []
    for kind in kinds:
        last = [100 * found[-1].success for run in group.runs if (found := _of_kind(run, *kind))]
        cells.append(f"{np.mean(last):.1f} ± {np.std(last, ddof=1):.1f} %" if len(last) > 1 else "")
    return {"label": group.label, "colour": colour % 8, "count": len(group.runs), "cells": cells}


def _colours(groups: Sequence[Group]) -> list[Tree]:
    """Returns the legend of the colours of all charts."""
    sizes = [f"{len(group.runs)} seeds" if len(group.runs) > 1 else group.runs[0].name for group in groups]
    return [
        {"number": number % 8, "label": group.label, "count": size}
        for number, (group, size) in enumerate(zip(groups, sizes, strict=True))
    ]


def _note(data: Sequence[Tree]) -> str:
    notes = ["Per iteration the group whose members' returns differ most, and one member of three others."]
    if left_out := sum(run["left_out"] for run in data):
        notes.append(f"{left_out} stored trajectories are left out of this page (--max-trajectories).")
    if lacking := [run["name"] for run in data if not run["has_tokens"]]:
        notes.append(f"Without tokens, for their tokenizer was not found: {', '.join(lacking)}.")
    return " ".join(notes)


def _config_text(run: Run) -> str:
    tree = {"config": run.config.model_dump(mode="json"), "versions": run.versions}
    return dump_yaml(tree)


def _file(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")
