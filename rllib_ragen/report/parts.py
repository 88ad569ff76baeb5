"""Several environments in a report, each with charts of its own, and the levels of curricula."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rllib_ragen.report.data import Group, Run
from rllib_ragen.report.figures import (
    INFORMATION,
    OF_AN_ENVIRONMENT,
    REPLIES,
    Curves,
    Figure,
    curve_figures,
    regime_figures,
    success_figure,
    training_success_figure,
)

_LEVEL = re.compile(r"level_(\d+)_(success|groups)")


def labels_of(groups: Sequence[Group]) -> list[str]:
    """Returns the labels of the environments among several that the runs have, each once."""
    return list(dict.fromkeys(label for group in groups for run in group.runs for label in run.labels))


def part_of(groups: Sequence[Group], path: str) -> list[Group]:
    """Returns the groups with what they hold of one part of their runs; those that have it not are left without runs'
    curves.
    """
    return [Group(group.label, [run.part(path) for run in group.runs if path in run.scales]) for group in groups]


def environment_figures(groups: Sequence[Group], label: str) -> list[Figure]:
    """Returns the charts of one of several environments."""
    own = part_of(groups, label)
    success = [success_figure(own), training_success_figure(own)]
    curves = curve_figures(own, (*OF_AN_ENVIRONMENT, *REPLIES))
    measured = [*regime_figures(own), *curve_figures(own, INFORMATION)]
    return [*filter(None, success), *level_figures(groups, label), *curves, *measured]


def level_figures(groups: Sequence[Group], label: str = "") -> list[Figure]:
    """Returns the charts of a curriculum: how well each level went and how often it was played; none without one.

    `label` names one of several environments; empty: the only one.
    """
    own = part_of(groups, label) if label else list(groups)
    names = {name for group in own for run in group.runs for row in run.rows for name in row}
    numbers = sorted({int(found[1]) for name in names if (found := _LEVEL.fullmatch(name))})
    if not numbers:
        return []
    curves = [
        Curves(tuple(f"level_{k}_success" for k in numbers), "Recent success by level"),
        Curves(tuple(f"level_{k}_groups" for k in numbers), "Groups by level"),
        Curves(("levels_open",), "Open levels"),
    ]
    return [*curve_figures(own, curves), *_evaluated(groups, label)]


def result_parts(run: Run) -> list[tuple[str, Run]]:
    """Returns the parts of a run that have a line of their own in the table of results, each with its name."""
    return [(path, run.part(path)) for path in run.scales if path]


def _evaluated(groups: Sequence[Group], label: str) -> list[Figure]:
    """Returns a chart of validations for each earlier level that has them."""
    prefix = f"{label}/" if label else ""
    paths = {path for group in groups for run in group.runs for path in run.scales}
    levels = sorted(path for path in paths if re.fullmatch(re.escape(prefix) + r"level_\d+", path))
    found = [(path, success_figure(part_of(groups, path))) for path in levels]
    return [
        Figure(f"Success, {path.removeprefix(prefix).replace('_', ' ')}", figure.svg, figure.note)
        for path, figure in found
        if figure is not None
    ]
