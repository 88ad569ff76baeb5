"""Writes the tables of docs/diagnostics.md from the list of metrics: `python -m rllib_ragen.diagnostics.metrics_page`.

A test says when that is due.
"""

from __future__ import annotations

from pathlib import Path

from rllib_ragen.diagnostics.metrics import INTRODUCTIONS, METRICS

PAGE = Path(__file__).parents[2] / "docs" / "diagnostics.md"
BEGIN, END = "<!-- made by rllib_ragen/diagnostics/metrics_page.py -->", "<!-- end -->"
_HEAD = "| name | meaning | unit | healthy | if not |\n|---|---|---|---|---|\n"


def with_tables(page: str) -> str:
    """Returns `page` with the text between its two marks replaced by the tables."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{rest.partition(END)[2]}"


def tables() -> str:
    """Renders a heading, its introduction and a table for each group of metrics."""
    return "\n".join(f"### {heading}\n\n{said}{_table(heading)}" for heading, said in _introductions())


def _introductions() -> list[tuple[str, str]]:
    return [(heading, f"{said}\n\n" if said else "") for heading, said in INTRODUCTIONS.items()]


def _table(heading: str) -> str:
    rows = [
        (f"`{one.name}`", one.meaning, one.unit, one.healthy, one.advice) for one in METRICS if one.heading == heading
    ]
    return _HEAD + "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
