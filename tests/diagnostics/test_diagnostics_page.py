"""docs/diagnostics.md names every metric that is logged, every alarm and every regime, and says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rllib_ragen.config.schema import AlarmsSection, RunConfig
from rllib_ragen.diagnostics.gradient_buckets import NUM_BUCKETS, gradient_metric_names
from rllib_ragen.diagnostics.information import Regime
from rllib_ragen.diagnostics.information_probe import SAMPLES, probe_metric_names
from rllib_ragen.rollout.statistics import rollout_statistics
from rllib_ragen.run.log import RunLog, _prefix, measured
from tests.starpo.build import digits_config

PAGE = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Cells of the table rows under a heading whose first cell is code."""
    section = PAGE.split(f"{heading}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def names(heading: str) -> list[str]:
    return [cells[0].strip("`") for cells in rows(heading)]


PREFIXED = {
    "information": list(SAMPLES),
    "gradients": [f"bucket_{k}" for k in range(1, NUM_BUCKETS + 1)],
}
PLAIN = [heading for heading in re.findall(r"^### (.+)$", PAGE, flags=re.MULTILINE) if heading not in PREFIXED]


OF_EVALUATIONS = {"iteration", "num_instances", "distinct_instances", "success_error", "instances"}


def documented() -> list[str]:
    plain = [name for heading in PLAIN for name in names(f"### {heading}")]
    prefixed = [(f"{prefix}_{name}") for h, every in PREFIXED.items() for prefix in every for name in names(f"### {h}")]
    return [*plain, *prefixed]


@pytest.mark.usefixtures("local_ray")
def test_every_logged_metric_is_in_the_tables_and_nothing_else(model: Path, tmp_path: Path) -> None:
    algo = digits_config(model, estimator="gae").build_algo()
    log = RunLog(tmp_path)
    log.train(1, 1.0, measured(algo.train()["starpo"]), algo.last_trajectories(), algo.last_advantages())
    log.evaluation(1, "val", True, measured(algo.evaluate_split("val", 2, True)), {})
    log.close()
    algo.stop()
    logged = {name for row in log.rows() for name in row} - {"split", "greedy"}
    assert logged - set(documented()) == set(), "not in docs/diagnostics.md"
    assert set(documented()) - logged - {"time_wait_s", "kl"} == set(), "in docs/diagnostics.md, but not logged"
    assert len(documented()) == len(set(documented()))


def test_tensorboard_groups_are_the_headings() -> None:
    for heading in PLAIN:
        for name in set(names(f"### {heading}")) - OF_EVALUATIONS:
            assert _prefix(name) == heading
    assert {_prefix(name) for name in probe_metric_names()} == {"information"}
    assert {_prefix(name) for name in gradient_metric_names()} == {"gradients"}


def test_every_row_says_meaning_unit_range_and_what_to_do() -> None:
    for heading in [*PLAIN, *PREFIXED]:
        assert all(len(cells) == 5 and all(cells) for cells in rows(f"### {heading}")), heading


def test_evaluations_hold_the_names_that_are_told() -> None:
    assert set(rollout_statistics([])) <= {*names("### rollout"), "prefix_hit_rate"}


def test_every_alarm_and_regime_is_told() -> None:
    assert names("## Alarms") == list(AlarmsSection.model_fields)
    for regime in Regime:
        assert re.search(rf"^\| {regime.label} \|.*\| {regime.value} \|$", PAGE, re.MULTILINE)


def test_the_defaults_that_are_told_are_the_defaults() -> None:
    section = RunConfig().diagnostics
    assert f"({section.high_entropy:g} nats per token)" in PAGE
    assert f"`diagnostics.high_information` ({section.high_information:g})" in PAGE
    assert f"({section.num_prompts} thoughts, every\n{section.interval} iterations)" in PAGE
    assert set(RunConfig().alarms.model_dump().values()) == {"warn"}
