"""docs/faults.md: every test that it names exists and is as slow as it says; every exit code is told."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.rollout.runner_pool import RunnerFailures
from tests.faults.build import TOP

PAGE = (TOP / "docs" / "faults.md").read_text(encoding="utf-8")
MATRIX = [line.split(" | ") for line in PAGE.split("## The kill matrix")[1].splitlines() if line.startswith("| ")][1:]


def known_tests() -> dict[str, bool]:
    """Every test function, and whether it, or its module, is marked slow."""
    found = {}
    for path in Path(TOP / "tests").rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        whole = re.search(r"^pytestmark = .*mark\.slow", text, re.MULTILINE) is not None
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = whole or any("mark.slow" in ast.unparse(mark) for mark in node.decorator_list)
    return found


def test_every_row_names_tests_that_exist_and_says_which_are_slow() -> None:
    known = known_tests()
    for row in MATRIX:
        named = re.findall(r"(\*?)`(test_\w+)`", row[-1])
        assert named, row
        for star, name in named:
            assert known.get(name) == bool(star), name


def test_every_exit_code_is_told_and_no_other() -> None:
    told = {name: int(code) for code, name in re.findall(r"^\| (\d+) \| `(\w+)` \|", PAGE, re.MULTILINE)}
    assert told == {code.name: int(code) for code in ExitCode}
    used = {int(row[2]) for row in MATRIX if row[2].isdigit()}
    assert used <= set(told.values())


def test_the_metrics_and_defaults_that_are_told_are_there() -> None:
    metrics = {name for row in MATRIX for name in re.findall(r"`(\w+)`", row[3])}
    assert metrics - set(RunnerFailures().metrics()) <= {"num_failed", "skipped_steps"}
    run = RunConfig()
    for key in ("fault.report_after_s", "fault.hang_timeout_s", "rollout.env_timeout_s", "rollout.timeout_s"):
        section, name = key.split(".")
        assert re.search(rf"`{key}` \({getattr(getattr(run, section), name):g} s\)", PAGE), key
