"""The floor plan: no import goes up, and none goes round."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PACKAGE = TOP / "rllib_ragen"
FLOORS = (
    ("types",),
    ("faults",),
    ("config",),
    ("models", "credit", "diagnostics"),
    ("rollout",),
    ("learner",),
    ("starpo",),
    ("run",),
    ("evaluate", "gradients", "play", "report", "sweep", "tournament"),
)
"""Rooms of the package from the ground up; one may import those below it, and its own."""
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
MODULES = {
    ".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def imported(path: Path) -> Iterator[str]:
    """Modules of the package that a file imports, inside functions and for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            known = name if name in MODULES else name.rpartition(".")[0]
            if known in MODULES:
                yield known


def room_of(module: str) -> str:
    return module.split(".")[1]


IMPORTS = {module: set(imported(path)) - {module} for module, path in MODULES.items() if module != "rllib_ragen"}


def test_every_room_has_a_floor_and_the_root_is_small() -> None:
    assert {room_of(module) for module in IMPORTS} == set(FLOOR_OF)
    assert len(FLOOR_OF) <= 16


@pytest.mark.parametrize("room", FLOOR_OF)
def test_no_import_goes_up(room: str) -> None:
    upwards = [
        f"{module} imports {used}"
        for module, uses in IMPORTS.items()
        if room_of(module) == room
        for used in uses
        if used != "rllib_ragen" and room_of(used) != room and FLOOR_OF[room_of(used)] >= FLOOR_OF[room]
    ]
    assert upwards == []


def test_no_import_goes_round() -> None:
    open_modules = dict(IMPORTS)
    while leaves := [module for module, uses in open_modules.items() if not uses & open_modules.keys()]:
        for module in leaves:
            del open_modules[module]
    assert sorted(open_modules) == []
