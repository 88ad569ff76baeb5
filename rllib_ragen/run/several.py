"""What a run of several environments, or of a curriculum, reached: each of its parts beside a floor and ceiling of its
own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rllib_ragen.config.environments import exams, worlds
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.console import percent
from rllib_ragen.run.evaluation import (
    Evaluation,
    Scale,
    find_baselines,
    results_table,
    scale_line,
    validation_line,
)

Scales = Mapping[str, Scale | None]
"""What success rates are read against, by the part of an evaluation (`config.environments.Exam.path`); empty: the only
one."""
_OPEN = "levels_open"


def find_scales(config: RunConfig, label: str | None = None) -> dict[str, Scale | None]:
    """Returns floor, blind and ceiling of everything that the run's evaluations play; of one environment's, if its
    `label` is given.
    """
    chosen = [world for world in worlds(config) if label in (None, world.label)]
    return {exam.path: find_baselines(exam.config) for exam in exams(chosen)}


def scales_line(scales: Scales) -> str:
    """Returns `scale_line` of the only part, or of each part with its name."""
    if list(scales) == [""]:
        return scale_line(scales[""])
    return "; ".join(f"{path or 'target level'}: {scale_line(scale)}" for path, scale in scales.items())


def task_lines(config: RunConfig, scales: Scales) -> list[str]:
    """Returns one line for each environment: its share of the groups, its levels, and floor and ceiling."""
    found = worlds(config)
    total = sum(world.weight for world in found)
    lines = []
    for world in found:
        share = f", {percent(world.weight / total)} of the groups" if world.label else ""
        levels = "" if world.curriculum is None else f", {len(world.levels)} levels"
        name = world.label or world.target.env.name
        lines.append(f"{name}{share}{levels}: {scale_line(scales[world.label])}")
    return lines


def validation_lines(found: Sequence[Evaluation], scales: Scales) -> str:
    """Returns `validation_line` of the whole and, indented, of each part."""
    parts = _parts(found, scales)
    if not parts:
        return validation_line(found, scales[""])
    whole = validation_line(found, scales.get("")) if "" in scales else _without_scale(found)
    return "\n".join([whole, *(f"  {path}: {validation_line(own, scales[path])}" for path, own in parts.items())])


def results_tables(evaluations: Sequence[Evaluation], scales: Scales) -> str:
    """Returns `results_table` of the whole and of each part, each under its name."""
    parts = _parts(evaluations, scales)
    if not parts:
        return results_table(evaluations, scales.get(""))
    whole = results_table(evaluations, scales.get(""))
    if "" not in scales:
        # The mean over environments has no floor: each has its own.
        whole = "all environments, mean\n" + "\n".join(whole.splitlines()[:-1])
    return "\n\n".join([whole, *(f"{path}\n{results_table(own, scales[path])}" for path, own in parts.items())])


def opened_levels(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Says which levels have opened between two rows of training metrics, one sentence each.

    A row without such metrics stands for the beginning, where only the first level is open.
    """
    lines = []
    for name, value in now.items():
        prefix, _, last = name.rpartition("/")
        was = before.get(name, 1.0)
        if last == _OPEN and value > was:
            path = f"{prefix}/" if prefix else ""
            reached = now.get(f"{path}level_{was:.0f}_success")
            after = "" if reached is None else f", after {percent(reached)} on level {was:.0f}"
            lines.append(f"{f'{prefix}: ' if prefix else ''}level {value:.0f} is open{after}")
    return lines


def _parts(evaluations: Sequence[Evaluation], scales: Scales) -> dict[str, list[Evaluation]]:
    """Returns the parts that were evaluated, in the order of the scales."""
    found = {path: [one.parts[path] for one in evaluations if path in one.parts] for path in scales if path}
    return {path: own for path, own in found.items() if own}


def _without_scale(found: Sequence[Evaluation]) -> str:
    first = found[0]
    values = ", ".join(f"{one.way} {one}" for one in found)
    return f"{first.split} at iteration {first.iteration}, mean over environments, {first.count}: {values}"
