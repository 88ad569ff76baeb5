"""No test passes or fails by how fast the machine was: what will be is waited for, with one patience for all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.conftest import LONG

TESTS = Path(__file__).parents[1]
LIMITS_OF_ANOTHER_KIND = {"wait_procs": "then they are killed", "urlopen": "then it is asked again"}
"""Calls whose own limit decides nothing, and what comes after it."""
PAUSES = {
    "patience.py": "between two looks",
    "faults/test_driver.py": "in a step that never ends",
    "run/checkpoint_writer.py": "between two looks",
}
"""Files that may sleep, and when."""


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_a_test_waits_for_conditions_and_not_for_seconds(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        own = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
        assert name in LIMITS_OF_ANOTHER_KIND or not any(isinstance(value, ast.Constant) for value in own), (
            f"line {node.lineno}: a fixed limit; tests/patience.py has PATIENCE_S and wait_until"
        )
        sleeps = name == "sleep" and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "time"
        assert not sleeps or str(path.relative_to(TESTS)) in PAUSES, (
            f"line {node.lineno}: sleeping for what will have happened by then; wait_until waits for it"
        )


def test_the_files_that_begin_first_are_there() -> None:
    assert len(set(LONG)) == len(LONG)
    assert all((TESTS.parent / name).is_file() for name in LONG)
