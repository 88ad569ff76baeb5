"""House rules that a machine can check."""

from __future__ import annotations

import ast
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from rllib_ragen import evaluate, gradients
from rllib_ragen.config.command_line import read_layers
from rllib_ragen.config.load import algorithm_preset, flatten, preset
from rllib_ragen.play import __main__ as play
from rllib_ragen.run import __main__ as run
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.sweep.__main__ import parse as parse_sweep
from rllib_ragen.tournament import __main__ as tournament

TOP = Path(__file__).parents[2]
PACKAGES = ("envs", "rllib_ragen")
SOURCES = sorted(path for package in PACKAGES for path in (TOP / package).rglob("*.py"))
PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
MODULES: dict[str, ModuleType] = {
    "run": run,
    "evaluate": evaluate,
    "gradients": gradients,
    "play": play,
    "tournament": tournament,
}
COMMANDS = "run|evaluate|gradients|play|sweep|tournament"
HEAVY = {"ray", "torch", "transformers", "vllm"}
UNSAFE = re.compile(
    r"trust_remote_code\s*=\s*(?!False\b)|weights_only\s*=\s*False|pickle\.loads?\(|(?<![\w.])eval\(|(?<![\w.])exec\("
)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", [p for p in SOURCES if p.relative_to(TOP).parts[0] == "envs"], ids=str)
def test_environments_import_neither_ray_nor_torch_nor_the_trainer(path: Path) -> None:
    assert not {name.split(".")[0] for name in imports(path)} & (HEAVY | {"rllib_ragen"})


def test_files_are_short() -> None:
    lengths = {path.relative_to(TOP): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path: n for path, n in lengths.items() if n > 500} == {}
    assert statistics.median(n for n in lengths.values() if n) <= 130


def test_functions_are_short() -> None:
    lengths = {
        f"{path.relative_to(TOP)}:{node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: n for name, n in lengths.items() if n > 80} == {}
    assert sum(n > 45 for n in lengths.values()) <= len(lengths) / 10


def test_nothing_unpickles_evaluates_or_trusts_code() -> None:
    """What is left out is looked for by test_security's search."""
    found = [
        f"{path.relative_to(TOP)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if UNSAFE.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("command", MODULES)
def test_help_is_there_before_ray_and_torch_are(command: str) -> None:
    code = (
        f"import sys; from {MODULES[command].__name__} import main\n"
        "try: main(['--help'])\n"
        f"except SystemExit as end: assert end.code == 0\n"
        f"loaded = {HEAVY!r} & set(sys.modules); assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TOP)
    assert done.returncode == 0, done.stderr
    options = [line for line in done.stdout.splitlines() if re.match(r"  --", line)]
    assert len(options) >= 6
    assert all(re.match(r"  --\S+.*?  +\S", line) for line in options), "an option without its one line of help"


def commands() -> list[tuple[str, str]]:
    """(page, command line) of every `python -m rllib_ragen.…` in a bash block of a page, jobs' among them."""
    return [
        (page.name, found[1])
        for page in PAGES
        if page.exists()
        for block in blocks(page, "bash")
        for line in block.replace("\\\n", " ").splitlines()
        if (found := re.match(rf"\s*(?:ray job submit .* -- +)?(python -m rllib_ragen\.(?:{COMMANDS})\b.*)", line))
    ]


@pytest.mark.parametrize(("page", "line"), commands())
def test_commands_in_the_pages_are_understood(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[2:]
    if words[0] == "rllib_ragen.sweep":
        parse_sweep(words[1:])
        return
    options = MODULES[words[0].removeprefix("rllib_ragen.")].parse(words[1:])
    flags, assignments = read_layers(options)
    name = flatten(flags).get("env.name", "sokoban")
    algorithm = getattr(options, "algorithm", None)
    build_config(preset(name), algorithm_preset(algorithm) if algorithm else {}, flags, assignments)


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists() and blocks(page, "python")], ids=str)
def test_python_in_the_pages_runs(page: Path, tmp_path: Path) -> None:
    """A page's python blocks are one program, from top to bottom. What only shows is fenced as `py`."""
    program = tmp_path / "page.py"
    program.write_text("\n".join(blocks(page, "python")), encoding="utf-8")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted((TOP / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_opens_with_what_it_shows_and_how_to_run_it(path: Path) -> None:
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert f"python examples/{path.name}" in said


def test_ci_runs_what_make_test_runs() -> None:
    script = TOP / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "make test" in script.read_text(encoding="utf-8")
    assert "ALLOW_NO_VLLM" not in script.read_text(encoding="utf-8")
