"""Alarms: enabled rules, evaluated row by row, each reported once when it begins to hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ragen_envs.tree import Tree
from rllib_ragen.config.watching import AlarmMode, AlarmsSection
from rllib_ragen.diagnostics.alarm_rules import RULES, Row


@dataclass(frozen=True)
class Alarm:
    """A rule that has begun to hold."""

    iteration: int
    alarm: str
    """Name of the rule, and of its key."""
    mode: AlarmMode
    message: str

    def __str__(self) -> str:
        return f"{self.alarm.replace('_', ' ')} at iteration {self.iteration}: {self.message}"

    def to_json(self) -> dict[str, str | int]:
        """Returns the alarm as a row of alarms.jsonl."""
        return asdict(self)


def measured(metrics: Mapping[str, Any]) -> Tree:
    """Returns plain numbers, with None where there was nothing to measure: JSON has no NaN."""
    numbers = {name: float(value) for name, value in metrics.items()}
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


class Alarms:
    """The state of a run's alarms: a function of its rows alone, so feeding a run's rows again restores it."""

    def __init__(self, section: AlarmsSection, rows: Iterable[Row] = ()) -> None:
        """`rows`: rows of the run so far; their alarms have been reported already."""
        self._modes: dict[str, AlarmMode] = section.model_dump()
        self._rows: list[Row] = list(rows)
        self._holding = {name for name, mode in self._modes.items() if mode != "off" and RULES[name](self._rows)}

    @property
    def holding(self) -> dict[str, bool]:
        """Says of every alarm that is not off whether its rule holds now."""
        return {name: name in self._holding for name, mode in self._modes.items() if mode != "off"}

    def feed(self, row: Row) -> list[Alarm]:
        """Adds a training or evaluation row, as logged → the alarms that it sets off.

        An alarm is not reported again while its rule holds.
        """
        self._rows.append(row)
        begun = []
        for name, mode in self._modes.items():
            message = "" if mode == "off" else RULES[name](self._rows)
            if message and name not in self._holding:
                begun.append(Alarm(row["iteration"], name, mode, message))
            (self._holding.add if message else self._holding.discard)(name)
        return begun
