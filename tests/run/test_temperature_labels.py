"""Whoever shows success says the temperature that was used: page, charts, sweep page, pictures, tables, evaluate."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.algorithm_page import table
from benchmarks.plot_runs import names_of
from rllib_ragen.report.data import group_runs, read_run
from rllib_ragen.report.figures import success_figure, training_success_figure
from rllib_ragen.report.render import render
from rllib_ragen.sweep.report import write_report
from rllib_ragen.sweep.spec import read_sweep
from tests.report.build import make_run
from tests.sweep.build import finished_sweep

SAID = re.compile(r"T = [\d.]*\d")


def run_at(results: Path, name: str, temperature: float, **learner: Any) -> Path:
    path = make_run(results, name, **learner)
    config = yaml.safe_load((path / "config.yaml").read_text())
    config["rollout"]["temperature"] = temperature
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_page_and_the_picture_of_a_run(tmp_path: Path, temperature: float) -> None:
    path = run_at(tmp_path, "one", temperature)
    run = read_run(path)
    assert set(SAID.findall(render([run], 10))) == {f"T = {temperature:g}"}
    assert {found.way for found in run.evaluations} == {f"T = {temperature:g}", "greedy"}
    assert names_of([path]) == {False: f"T = {temperature:g}", True: "greedy"}


def test_runs_at_different_temperatures_share_no_number(tmp_path: Path) -> None:
    paths = [run_at(tmp_path, "cool", 0.5), run_at(tmp_path, "warm", 1.0)]
    runs = [read_run(path) for path in paths]
    page = render(runs, 10)
    assert "val, sampled, T of the run" in page and "val, greedy" in page
    groups = group_runs(runs)
    for figure in (success_figure(groups), training_success_figure(groups)):
        assert figure is not None and not SAID.search(figure.svg + figure.note)
    assert names_of(paths)[False] == "sampled, T of the run"


def test_evaluations_that_sample_otherwise_say_so_and_training_says_its_own(tmp_path: Path) -> None:
    path = run_at(tmp_path, "one", 1.0)
    config = yaml.safe_load((path / "config.yaml").read_text())
    config["eval"]["temperature"] = 0.5
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    run = read_run(path)
    assert {found.way for found in run.evaluations} == {"T = 0.5", "greedy"}
    assert names_of([path])[False] == "T = 0.5"
    shown, training = success_figure(group_runs([run])), training_success_figure(group_runs([run]))
    assert shown is not None and set(SAID.findall(shown.svg + shown.note)) == {"T = 0.5"}
    assert training is not None and set(SAID.findall(training.svg + training.note)) == {"T = 1"}


def test_a_folder_that_does_not_tell_is_not_said_to_be_at_one(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    assert names_of([tmp_path / "bare"])[False] == "sampled"


def test_the_page_of_a_sweep(tmp_path: Path) -> None:
    spec, study, folder = finished_sweep(tmp_path)
    write_report(spec, study, folder)
    assert "success (T = 1)" in (folder / "report.html").read_text()
    tree = spec.model_dump(mode="json", exclude_unset=True)
    tree["base"]["rollout"] = {"temperature": 0.6}
    write_report(read_sweep(tree), study, folder)
    assert "success (T = 0.6)" in (folder / "report.html").read_text()


def test_the_table_of_algorithms() -> None:
    """It is of the environments' own settings."""
    record = {"env": "bandit", "algorithm": "grpo", "filter": "none", "seed": 0, "iterations": 3}
    said = table("bandit", [{**record, "sampled": [0.1, 0.2], "greedy": [0.1, 0.2]}])
    assert set(SAID.findall(said)) == {"T = 1"}
