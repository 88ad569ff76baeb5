"""requirements/constraints.txt pins what setup.py names, at versions that it allows, and `make` installs by them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[2]
PINNED_ELSEWHERE = {"vllm": "requirements/cpu.txt pins its CPU build; the extra is for GPUs"}
PINS = {
    str(canonicalize_name(name)): version
    for line in (TOP / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    for name, equals, version in [line.partition("==")]
    if equals
}


def named() -> list[str]:
    """Every requirement of setup.py, of all extras."""
    (call,) = [
        node for node in ast.walk(ast.parse((TOP / "setup.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setup"
    ]  # fmt: skip
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg != "packages"}
    return sorted({*given["install_requires"], *(one for extra in given["extras_require"].values() for one in extra)})


@pytest.mark.parametrize("text", named())
def test_what_setup_names_is_pinned_at_a_version_that_it_allows(text: str) -> None:
    requirement = Requirement(text)
    name = str(canonicalize_name(requirement.name))
    if name in PINNED_ELSEWHERE:
        return
    assert name in PINS, f"{name} is not in requirements/constraints.txt: make freeze"
    assert requirement.specifier.contains(PINS[name], prereleases=True), (text, PINS[name])


def test_make_installs_by_the_pins_and_nothing_is_pinned_loosely() -> None:
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    cpu = (TOP / "requirements" / "cpu.txt").read_text(encoding="utf-8")
    assert "-c constraints.txt" in cpu and "-r requirements/cpu.txt" in makefile
    assert "-c requirements/constraints.txt" in makefile
    lines = [line for line in cpu.splitlines() if line and not line.startswith(("#", "-c", "./"))]
    assert lines and all("==" in line for line in lines)
    assert len(PINS) > 100
