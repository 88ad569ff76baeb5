"""docs/regressions.md: every fault that is told has tests named after it, and every test that is named exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "regressions.md").read_text(encoding="utf-8")
FAULTS = {
    code: re.findall(r"`([\w/]+\.py)::(test_\w+)`", tests)
    for code, tests in re.findall(r"^\| ([A-Z]\d) \|.*\|([^|]+)\|$", PAGE, re.MULTILINE)
}
CODES = [f"{area}{number}" for area, count in zip("TCSNLRH", (5, 6, 3, 2, 6, 3, 2), strict=True)
         for number in range(1, count + 1)]  # fmt: skip


def functions(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_page_has_every_fault() -> None:
    assert list(FAULTS) == CODES


@pytest.mark.parametrize("code", CODES)
def test_a_fault_has_tests_of_its_name_and_they_exist(code: str) -> None:
    assert FAULTS[code]
    for file, name in FAULTS[code]:
        assert name.startswith(f"test_{code}_"), name
        assert name in functions(file), f"{file} has no {name}"


def test_no_test_is_named_after_a_fault_that_is_not_told() -> None:
    named = {
        match[1]
        for path in TESTS.rglob("test_*.py")
        for match in re.finditer(r"^ *def test_([A-Z]\d)_", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named <= set(CODES)
