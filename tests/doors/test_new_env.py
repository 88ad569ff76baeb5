"""`python -m rllib_ragen.new_env NAME`: a package that works under any name that is allowed, and no other."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ragen_envs import open_names
from ragen_envs.certify import CLAUSES, check_text_env
from ragen_envs.registry import make_text_env
from ragen_envs.splits import Split
from rllib_ragen.commands.new_env.__main__ import main
from rllib_ragen.commands.new_env.write import TEMPLATE, class_name
from rllib_ragen.config.load import read_yaml
from rllib_ragen.starpo.checks.build_config import build_config
from tests.doors.build import TOP, write_distribution
from tests.patience import PATIENCE_S


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]
    importlib.invalidate_caches()
    open_names._entry_points.cache_clear()


@pytest.fixture
def package(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """The folder of a new package, as the current one."""
    assert main(["guess_it2"]) == 0
    folder = here / "guess_it2"
    written = sorted(str(path.relative_to(here)) for path in folder.rglob("*") if path.is_file())
    said = capsys.readouterr().out.splitlines()
    assert sorted(said[:-1]) == written and len(written) == 6
    assert said[-1] == "next: cd guess_it2 && python -m ragen_envs.certify guess_it2.world:GuessIt2"
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    return folder


def test_the_package_has_the_users_name_everywhere(package: Path) -> None:
    for path in package.rglob("*"):
        assert "new_world" not in path.name
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert "new_world" not in text and "NewWorld" not in text, path


def test_the_environment_keeps_the_contract_and_its_solver_is_shortest(package: Path) -> None:
    world = "guess_it2.world:GuessIt2"
    assert check_text_env(lambda: make_text_env(world)) == list(CLAUSES)
    env = make_text_env(world, {"largest": 12, "moves": 3})
    for split in Split:
        for seed in range(20):
            env.reset(seed=seed, options={"split": split.value})
            way = env.task.solve()
            assert way is not None and 2 <= len(way) <= 3
            *_, info = env.step(f"<think>go</think><answer>{' || '.join(way)}</answer>")
            assert info["success"] and info["actions"] == way
    for wrong in ({"largest": 7}, {"moves": 1}, {"moves": 11}):
        with pytest.raises(ValueError, match="must be"):
            make_text_env(world, wrong)


def test_the_yaml_is_a_config_and_the_entry_point_a_name(package: Path) -> None:
    given = read_yaml(package / "guess_it2.yaml")
    config = build_config(given)
    assert (config.env.name, config.env.task) == ("guess_it2.world:GuessIt2", {"largest": 20, "moves": 4})
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))
    points = project["project"]["entry-points"]["rllib_ragen.envs"]
    write_distribution(package, "guess_it2", rllib_ragen__envs="\n".join(f"{k} = {v}" for k, v in points.items()))
    open_names._entry_points.cache_clear()
    assert make_text_env("guess_it2").task.title == "GuessIt2"


def test_the_packages_own_tests_pass_and_fail_for_a_wrong_world(package: Path) -> None:
    def tests() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=package,
            env={"PATH": "", "PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    assert "3 passed" in tests().stdout
    world = package / "guess_it2" / "world.py"
    world.write_text(world.read_text(encoding="utf-8").replace("float(self.success)", "1.0"), encoding="utf-8")
    failed = tests()
    assert failed.returncode == 1 and "test_an_action_short_of_the_target_gives_nothing" in failed.stdout


def test_the_readmes_commands_are_there(package: Path) -> None:
    readme = (package / "README.md").read_text(encoding="utf-8")
    for command in ("ragen_envs.certify", "rllib_ragen.play", "rllib_ragen.run", "pytest"):
        assert f"python -m {command}" in readme


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("my-world", "is no package's name"),
        ("MyWorld", "is no package's name"),
        ("2worlds", "is no package's name"),
        ("_world", "is no package's name"),
        ("wörld", "is no package's name"),
        ("../world", "is no package's name"),
        ("a.b", "is no package's name"),
        ("", "is no package's name"),
        ("class", "is a word of the Python language"),
        ("match", "is a word of the Python language"),
        ("json", "is a module of Python's standard library"),
        ("sokoban", "is the name of a shipped environment"),
        ("kuhn_poker", "is the name of a shipped environment"),
        ("tests", "is the folder of the package's tests"),
        ("text_task", "makes a class TextTask, a name that world.py uses"),
        ("any", "makes a class Any, a name that world.py uses"),
        ("numpy", "there is a module 'numpy' already"),
        ("rllib_ragen", "there is a module 'rllib_ragen' already"),
        ("there", "is there already"),
        ("a_file", "is there already"),
    ],
)
def test_a_name_that_cannot_be_is_one_sentence_and_nothing_is_written(
    name: str, says: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "there").mkdir()
    (here / "a_file").touch()
    before = sorted(here.parent.rglob("*"))
    assert main([name]) == 2
    said = capsys.readouterr().err
    assert says in said and said.startswith("rllib_ragen: NAME: ") and said.count("\n") == 1
    assert sorted(here.parent.rglob("*")) == before


def test_a_folder_that_cannot_be_written_is_one_sentence(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = here / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(Path, "cwd", lambda: gone)
    assert main(["fine"]) == 2
    assert "cannot be written: " in capsys.readouterr().err


@pytest.mark.parametrize(("name", "wanted"), [("guess", "Guess"), ("guess_it2", "GuessIt2"), ("a_b_", "AB")])
def test_a_class_is_named_after_its_package(name: str, wanted: str) -> None:
    assert class_name(name) == wanted


def test_python_finds_the_command_by_the_packages_name() -> None:
    """Where commands of few files lie is nobody's business but the package's."""
    for command in ("new_env", "gradients"):
        found = find_spec(f"rllib_ragen.{command}")
        assert found is not None and found.origin is not None
        assert Path(found.origin).is_relative_to(TOP / "rllib_ragen" / "commands")
    assert Path(inspect.getfile(main)).parent == TEMPLATE.parent
