"""What others need to carry the project on is there, and says what the rest says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from rllib_ragen import __version__
from rllib_ragen.config.commands import COMMANDS

TOP = Path(__file__).parents[2]
PAGES = [*sorted(TOP.glob("*.md")), *sorted((TOP / "docs").glob("*.md"))]


def read(name: str) -> str:
    return (TOP / name).read_text(encoding="utf-8")


def test_ci_does_what_the_one_script_does() -> None:
    steps = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert "make test" in read(".ci/run")


def test_hooks_run_what_make_runs() -> None:
    (repo,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    entries = [hook["entry"] for hook in repo["hooks"]]
    makefile = read("Makefile")
    for entry in entries[:3]:
        assert f"$(BIN)/{entry.removesuffix(' --fix')}" in makefile
    for word in entries[3].split():
        assert (TOP / word).is_file() or not word.startswith("tests/")


def test_the_version_stands_in_one_place() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("no git checkout")
    stated = re.compile(rf"^(__version__|version)\s*[=:]\s*\"?{re.escape(__version__)}", re.MULTILINE)
    files = [name for name in tracked.stdout.splitlines() if name.endswith((".py", ".toml", ".cff", ".cfg"))]
    own = [name for name in files if "stubs/" not in name and (TOP / name).is_file() and stated.search(read(name))]
    assert own == ["rllib_ragen/__init__.py"]
    assert f"## {__version__}" in read("CHANGELOG.md")


def test_the_citation_can_be_read() -> None:
    cited = yaml.safe_load(read("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert all(set(author) & {"name", "family-names"} for author in cited["authors"])


@pytest.mark.parametrize("path", sorted((TOP / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name)
def test_issue_forms_have_what_the_host_asks_for(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.name == "config.yml":
        assert set(form) <= {"blank_issues_enabled", "contact_links"}
        return
    assert {"name", "description", "body"} <= set(form)
    ids = [part["id"] for part in form["body"]]
    assert len(ids) == len(set(ids))
    for part in form["body"]:
        assert part["type"] in ("textarea", "input", "dropdown", "checkboxes", "markdown")
        assert part["attributes"]["label"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target or target.startswith("#"):
            continue
        path, _, heading = target.partition("#")
        found = (page.parent / path).resolve()
        assert found.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings]
            assert heading in slugs, target


def test_contributing_names_files_that_exist() -> None:
    for name in re.findall(
        r"`((?:envs|rllib_ragen|tests|tune_configs|examples|docs)/[\w./]+)`", read("CONTRIBUTING.md")
    ):
        assert (TOP / name).exists(), name


def test_the_changelog_names_the_commands() -> None:
    assert f"rllib-ragen {'|'.join(COMMANDS)}" in read("CHANGELOG.md")
