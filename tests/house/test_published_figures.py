"""What README and docs/embedded_model.md say was measured on this code, these weights and these instances."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import explanations
from benchmarks.headline import FIGURES, PAGE, ROOT, differences, sentence, success_rates, table
from rllib_ragen.config.load import preset
from rllib_ragen.models.folder import model_folder
from rllib_ragen.starpo.checks.build_config import build_config

RECORDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FIGURES.glob("*.json"))}


@pytest.mark.parametrize("name", RECORDS)
def test_what_the_figures_depend_on_is_as_it_was_when_they_were_recorded(name: str) -> None:
    """If this fails: run again, record again (benchmarks/headline.py says how)."""
    assert differences(RECORDS[name]) == []


def test_a_change_of_what_they_depend_on_is_told_by_its_name() -> None:
    recorded = json.loads(json.dumps(RECORDS["sokoban"]))
    recorded["settings"]["learner"]["lr"] = 0.5
    recorded["model_sha256"] = "other"
    assert differences(recorded) == ["model_sha256", "learner.lr"]


@pytest.mark.parametrize("name", RECORDS)
def test_the_page_says_what_was_recorded(name: str) -> None:
    assert table(RECORDS[name]) in PAGE.read_text(encoding="utf-8")


def test_the_readme_says_what_was_recorded() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for number in re.findall(r"\d+\.\d", sentence(RECORDS["sokoban"])):
        assert number in readme
    for way in ("T = 1", "greedy"):
        assert f"{helped(RECORDS['sokoban'], way):.1f}" in readme


def helped(recorded: dict[str, Any], way: str) -> float:
    """Success in % of the untrained model, with whatever beginning of its replies helps it most."""
    return max(100 * float(recorded["explanations"][name][way]) for name in ("free", "format forced", "plan forced"))


def test_reinforcement_taught_more_than_a_habit() -> None:
    """Ten points above the untrained model however its replies begin: every one of three seeds, both ways."""
    recorded: dict[str, Any] = RECORDS["sokoban"]
    assert len(recorded["runs"]) >= 3 and recorded["test_instances"] == 256
    for greedy, way in ((False, "T = 1"), (True, "greedy")):
        assert min(success_rates(recorded, greedy, -1)) >= 10 + helped(recorded, way)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDS)
def test_the_untrained_model_still_reaches_what_is_published(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    config, folder = build_config(preset(RECORDS[name]["env"])), model_folder("tiny")
    found = explanations.evaluate(explanations.load(folder), folder, config, "", "test", 256)
    for greedy, way in ((False, "T = 1"), (True, "greedy")):
        # Another processor may round a logit otherwise and so draw another token here and there.
        assert 100 * found[way] == pytest.approx(success_rates(RECORDS[name], greedy, 0)[0], abs=2)
