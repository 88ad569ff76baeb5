"""The observation forms of a grid task: the grid, coordinates, or both."""

from __future__ import annotations

from typing import Literal, get_args

Observation = Literal["grid", "coordinates", "both"]
Symbols = Literal["plain", "letters"]
"""What the cells of a grid are written with: as ever, or with letters that mean something else elsewhere."""


def check_observation(form: str) -> None:
    """Raises ValueError, naming the allowed forms, if there is no such form."""
    if form not in get_args(Observation):
        raise ValueError(f"observation must be grid, coordinates or both, got {form!r}")


def check_symbols(symbols: str) -> None:
    """Raises ValueError, naming the allowed ones, if there are no such symbols."""
    if symbols not in get_args(Symbols):
        raise ValueError(f"symbols must be plain or letters, got {symbols!r}")


def in_form(form: Observation, grid: str, coordinates: str) -> str:
    """Returns the state in the given form; `both` puts the grid first."""
    return {"grid": grid, "coordinates": coordinates, "both": f"{grid}\n{coordinates}"}[form]
