"""Paths: one way in, whatever says them; written so that what moves together stays together."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from rllib_ragen.config.command_line import make_parser, read_layers
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import parse_assignments, parse_config, read_yaml, save_config
from rllib_ragen.config.paths import enter_model, enter_path, leave_path
from rllib_ragen.config.printable import command, safe, word
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.sweep.place import study_url
from rllib_ragen.sweep.spec import read_sweep, save_sweep
from rllib_ragen.sweep.study import SweepStudy

ODD = [
    "a b",
    "it's",
    'say "x"',
    "a#b",
    "50%20",
    "ä→€",
    "new\nline",
    "$HOME",
    "a;b&c",
    "a?b={c}",
    "-x",
    "~x",
    "!!",
    "x\\y",
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


def test_a_tilde_is_the_home_folder_wherever_it_is_said(home: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("results_dir: ~/x\nmodel: {path: ~/m}\n")
    options = make_parser("run", "").parse_args(["--results-dir", "~/x", "--model", "~/m"])
    layers = (
        read_yaml(tmp_path / "run.yaml"),
        read_layers(options)[0],
        parse_assignments(["results_dir=~/x", "model.path=~/m"]),
        {"results_dir": "~/x", "model": {"path": "~/m"}},
    )
    for layer in layers:
        config = parse_config(layer)
        assert (config.results_dir, config.model.path) == (home / "x", str(home / "m"))
    assert StarPOConfig().llm(model="~/m").to_run_config().model.path == str(home / "m")
    assert not list(Path.cwd().iterdir()), "no folder is called ~"


def test_a_relative_path_is_from_where_it_is_said(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.yaml").write_text("results_dir: r\nmodel: {path: ../m}\n")
    from_file = parse_config(read_yaml(Path("../run.yaml")))
    from_line, python = parse_config(parse_assignments(["model.path=m"])), StarPOConfig().llm(model="m")
    monkeypatch.chdir(tmp_path)
    assert (from_file.results_dir, from_file.model.path) == (tmp_path / "r", str(tmp_path.parent / "m"))
    assert from_line.model.path == python.to_run_config().model.path == str(tmp_path / "work" / "m")


def test_inside_a_trial_of_tune_it_is_from_where_the_driver_was_started(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_ORIG_WORKING_DIR", str(tmp_path))
    assert StarPOConfig().llm(model="m").to_run_config().model.path == str(tmp_path / "m")


def test_the_embedded_model_is_a_name_and_a_folder_called_so_a_path() -> None:
    assert enter_model("tiny") == "tiny"
    assert enter_model("./tiny") == str(Path.cwd() / "tiny")


@pytest.mark.parametrize("bad", ["~nobody_of_that_name/x", "a\0b", "a\udcffb", ""])
def test_what_is_no_path_says_so(bad: str) -> None:
    with pytest.raises(ConfigError):
        enter_path(bad)
    with pytest.raises(ConfigError):
        parse_config({"results_dir": bad})


@pytest.mark.parametrize("name", ODD)
def test_a_run_folder_that_is_moved_finds_what_moved_with_it(name: str, tmp_path: Path) -> None:
    before, after, model = tmp_path / name, tmp_path / "moved" / f"{name}2", tmp_path / "elsewhere"
    inside = before / "run" / "start"
    for path, kept in ((model, model), (inside, after / "run" / "start")):
        config = RunConfig(results_dir=before, model={"path": str(path)}, name="run")
        folder = RunFolder.create(config, "run")
        assert folder.config() == config
        after.parent.mkdir(exist_ok=True)
        before.rename(after)
        moved = RunFolder.open(after / "run").config()
        assert (moved.results_dir, moved.model.path) == (after, str(kept))
        assert str(before) + "/" not in (after / "run" / "config.yaml").read_text() or path is model
        after.rename(tmp_path / f"old{path is model}")


@pytest.mark.parametrize("name", ODD)
def test_a_sweep_file_and_its_study_may_be_anywhere(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    space = {"model.path": {"choice": ["tiny", "m1", "../m2"]}, "learner.lr": {"uniform": [1e-5, 1e-4]}}
    spec = read_sweep({"name": "x", "base": {"model": {"path": "~/m"}}, "space": space}, folder)
    assert spec.base["model"]["path"] == str(Path.home() / "m")
    assert spec.space["model.path"]["choice"] == ["tiny", str(folder / "m1"), str(tmp_path / "m2")]
    save_sweep(spec, folder / "sweep.yaml")
    moved = folder.rename(tmp_path / "moved")
    again = read_sweep(read_yaml(moved / "sweep.yaml"), moved)
    assert again.space["model.path"]["choice"] == ["tiny", str(moved / "m1"), str(tmp_path / "m2")]
    moved.rename(folder)
    number = SweepStudy(spec, folder).ask().number
    assert (folder / "study.db").is_file() and "?uri=true" in study_url(folder)
    assert SweepStudy(spec, folder).trial(number).number == number


def test_paths_that_do_not_move_along_stay_absolute(tmp_path: Path) -> None:
    root = tmp_path / "results" / "run"
    assert leave_path(tmp_path / "m", root, root) == str(tmp_path / "m")
    assert leave_path(root / "m", root, root) == "m"
    assert leave_path(root.parent, root, root) == ".."


def test_the_default_of_results_is_below_the_working_directory(home: Path, tmp_path: Path) -> None:
    config = parse_config({})
    assert config.results_dir == tmp_path / "work" / "results"
    save_config(config, tmp_path / "best.yaml", without=("results_dir",))
    assert "results_dir" not in (tmp_path / "best.yaml").read_text()


@pytest.mark.parametrize("name", [*ODD, "bell\a", "\u200b", "\x1b[2J'"])
def test_a_printed_command_can_be_pasted(name: str, tmp_path: Path) -> None:
    line = safe(command("run", "--resume", tmp_path / name))
    printed = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True).stdout.decode()
    assert printed.split("\0")[:-1] == ["python", "-m", "rllib_ragen.run", "--resume", str(tmp_path / name)]
    if safe(name) == name:
        assert shlex.split(word(name)) == [name]
