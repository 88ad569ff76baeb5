"""The floors of the package, and the drawing of which room imports which: `python -m benchmarks.floor_plan`.

Writes the drawing into docs/architecture.md; a test holds page and imports together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

TOP = Path(__file__).parents[1]
PAGE = TOP / "docs" / "architecture.md"
PACKAGE = "rllib_ragen"
ENVIRONMENTS = "ragen_envs"
FLOORS = (
    ("types",),
    ("faults",),
    ("config",),
    ("models", "credit", "diagnostics"),
    ("rollout",),
    ("learner",),
    ("starpo",),
    ("run",),
    ("commands", "evaluate", "play", "report", "sweep", "tournament"),
)
"""Rooms of the package from the ground up; one may import those below it, and its own."""
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
_BEGIN, _END = "<!-- drawing: python -m benchmarks.floor_plan -->", "<!-- end of the drawing -->"


def modules() -> dict[str, Path]:
    """Returns the file of every module of the package."""
    return {
        ".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((TOP / PACKAGE).rglob("*.py"))
    }


def imports() -> dict[str, set[str]]:
    """Returns the modules of the package that each module imports, also inside functions and for type checkers.

    The package's own `__init__` is left out: it names what is exported, from all floors.
    """
    known = modules()
    return {
        module: {used for used in _imported(path, known) if used in known and used != module}
        for module, path in known.items()
        if module != PACKAGE
    }


def room_of(module: str) -> str:
    """Returns the room of a module: `rllib_ragen.run.loop` → `run`."""
    return module.split(".")[1]


def room_imports() -> dict[str, set[str]]:
    """Returns the rooms that each room imports, with `ragen_envs`, a package of its own below all."""
    known = modules()
    found: dict[str, set[str]] = {room: set() for room in FLOOR_OF}
    for module, uses in imports().items():
        found[room_of(module)] |= {room_of(used) for used in uses if used != PACKAGE} - {room_of(module)}
        if any(name.split(".")[0] == ENVIRONMENTS for name in _imported(known[module], known)):
            found[room_of(module)].add(ENVIRONMENTS)
    return found


def shortest(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Returns the transitive reduction of the graph."""

    def reached(room: str) -> set[str]:
        below = graph.get(room, set())
        return below.union(*(reached(one) for one in below)) if below else set()

    return {
        room: {one for one in uses if not any(one in reached(other) for other in uses - {one})}
        for room, uses in graph.items()
    }


def drawing() -> str:
    """Draws the rooms by floor as a Mermaid flow chart, top floor first."""
    lines = ["```mermaid", "flowchart TD"]
    for number, rooms in reversed(list(enumerate(FLOORS))):
        lines.append(f'    subgraph floor{number} ["floor {number}"]')
        lines += [f"        {room}" for room in rooms]
        lines.append("    end")
    lines.append(f'    {ENVIRONMENTS}["envs (ragen_envs)"]')
    arrows = shortest(room_imports())
    lines += [f"    {room} --> {used}" for room in reversed(FLOOR_OF) for used in sorted(arrows[room])]
    return "\n".join([*lines, "```"])


def with_drawing(page: str) -> str:
    """Returns the page's text with the current drawing."""
    before, rest = page.split(_BEGIN)
    return f"{before}{_BEGIN}\n{drawing()}\n{_END}{rest.split(_END)[1]}"


def _imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield name if name in known else name.rpartition(".")[0] or name


def main() -> None:
    """Writes the page."""
    PAGE.write_text(with_drawing(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
