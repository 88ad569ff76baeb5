"""Every message that names a command, a package, a folder or a file is true: what it names is there and can be run."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.report.browser import HOW

TOP = Path(__file__).parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCES = [
    path for folder in ("rllib_ragen", "envs", "benchmarks", "examples") for path in (TOP / folder).rglob("*.py")
]
PAGES = [TOP / "README.md", *(TOP / "docs").glob("*.md")]
COMMAND = re.compile(r"python -m ([a-z_]+(?:\.[a-z_]+)*)(?![\w.…])")
EXTRA = re.compile(r"rllib[-_]ragen\[([\w,]+)\]")
NAMED_FILE = re.compile(r"\b((?:docs|requirements|tune_configs|examples|benchmarks)/[\w./-]+\.(?:md|txt|yaml|py))")
TARGET = re.compile(r"`make ([a-z]+)`|\(make ([a-z]+)\)")


def texts() -> Iterator[tuple[str, str]]:
    """(where, text) of every string in the code, docstrings included, and of every page."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.relative_to(TOP)}:{node.lineno}", node.value
            elif isinstance(node, ast.JoinedStr):
                parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
                yield f"{path.relative_to(TOP)}:{node.lineno}", "…".join(map(str, parts))
    for path in PAGES:
        yield str(path.relative_to(TOP)), path.read_text(encoding="utf-8")


def named(pattern: re.Pattern[str]) -> dict[str, str]:
    """What the pattern finds → where first."""
    found: dict[str, str] = {}
    for where, text in texts():
        for match in pattern.finditer(text):
            found.setdefault(next(group for group in match.groups() if group), where)
    return found


def runs_as_module(name: str) -> bool:
    """Whether `python -m name` finds something to run."""
    spec = find_spec(name)
    return spec is not None and (spec.submodule_search_locations is None or find_spec(f"{name}.__main__") is not None)


def test_every_module_that_is_to_be_run_is_there() -> None:
    modules = named(COMMAND)
    assert len(modules) > 15
    assert {name: where for name, where in modules.items() if not runs_as_module(name)} == {}


def test_every_extra_that_is_to_be_installed_is_one_of_ours() -> None:
    extras = {extra: where for found, where in named(EXTRA).items() for extra in found.split(",")}
    assert {"report", "vllm", "lora", "games", "cmaes", "pb2"} <= extras.keys()
    assert {extra: where for extra, where in extras.items() if extra not in PROJECT["optional-dependencies"]} == {}


def test_every_file_of_the_repository_that_is_named_is_there() -> None:
    missing = {path: where for path, where in named(NAMED_FILE).items() if not (TOP / path).exists()}
    assert missing == {}


def test_every_make_target_that_is_named_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (TOP / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = set(named(TARGET)) | set(re.findall(r"make ([a-z]+)", HOW))
    assert asked and asked <= targets


@pytest.mark.parametrize("module", ["ragen_envs.games.play", "ragen_envs.certify", "ragen_envs.games.certify"])
def test_the_modules_that_errors_point_to_start(module: str) -> None:
    """They have no parser's --help to rely on: what they say of themselves names themselves."""
    found = subprocess.run([sys.executable, "-m", module], capture_output=True, text=True, cwd=TOP, check=False)
    assert f"python -m {module}" in found.stdout + found.stderr


def test_a_game_that_play_refuses_is_played_by_what_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    from rllib_ragen.play.__main__ import main as play

    assert play(["--env", "tic_tac_toe"]) == 2
    said = capsys.readouterr().err
    command = shlex.split(said[said.index("python -m") :])
    found = subprocess.run(
        [sys.executable, *command[1:]], input="", capture_output=True, text=True, cwd=TOP, check=False
    )
    assert "Tic-tac-toe" in found.stdout + found.stderr and "Traceback" not in found.stderr
