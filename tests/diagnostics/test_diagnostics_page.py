"""docs/diagnostics.md names every metric that is logged, every alarm and every regime, and says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.watching import AlarmsSection
from rllib_ragen.diagnostics.alarms import measured
from rllib_ragen.diagnostics.gradient_buckets import NUM_BUCKETS, gradient_metric_names
from rllib_ragen.diagnostics.information import Regime
from rllib_ragen.diagnostics.information_probe import SAMPLES, probe_metric_names
from rllib_ragen.diagnostics.metrics import INTRODUCTIONS, METRICS, find_metric, heading_of, label_of, unit_of
from rllib_ragen.diagnostics.metrics_page import with_tables
from rllib_ragen.report.figures import GRADIENTS, INFORMATION, LEARNING, REPLIES, THROUGHPUT
from rllib_ragen.rollout.statistics import rollout_statistics
from rllib_ragen.run.log import RunLog
from tests.starpo.build import digits_config

PAGE = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """Cells of the table rows under a heading whose first cell is code."""
    section = PAGE.split(f"{heading}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def names(heading: str) -> list[str]:
    return [cells[0].strip("`") for cells in rows(heading)]


def full_names() -> list[str]:
    """All that a run of one policy without a curriculum or rewards of its own logs, as the list has it."""
    prefixes = {
        "information": [f"{sample}_" for sample in SAMPLES],
        "gradients": [f"bucket_{k}_" for k in range(1, NUM_BUCKETS + 1)],
    }
    plain = [one for one in METRICS if one.heading not in ("games", "curriculum", "rewards")]
    return [f"{prefix}{one.name}" for one in plain for prefix in prefixes.get(one.heading, [""])]


def test_the_pages_tables_are_those_of_the_list() -> None:
    assert with_tables(PAGE) == PAGE, "run python -m rllib_ragen.diagnostics.metrics_page"


@pytest.mark.usefixtures("local_ray")
def test_every_logged_metric_is_in_the_tables_and_nothing_else(model: Path, tmp_path: Path) -> None:
    algo = digits_config(model, estimator="gae").build_algo()
    log = RunLog(tmp_path)
    log.train(1, 1.0, measured(algo.train()["starpo"]), algo.last_trajectories(), algo.last_advantages())
    log.evaluation(1, "val", True, measured(algo.evaluate_split("val", 2, True)), {})
    log.close()
    algo.stop()
    logged = {name for row in log.rows() for name in row} - {"split", "greedy", "instances"}
    assert {name for name in logged if find_metric(name) is None} == set(), "not in diagnostics/metrics.py"
    assert set(full_names()) - logged - {"time_wait_s", "kl", "data_passes"} == set(), "listed, but not logged"
    assert logged - set(full_names()) == set()


def test_a_metric_that_is_not_listed_is_none() -> None:
    for name in ("entropy_variance", "first_turn_entropy", "bucket_1_entropy", "win_rate", "task_norm", "regime"):
        assert find_metric(name) is None, name
    assert heading_of("mine") == "more"


def test_names_are_listed_once_and_every_entry_says_all() -> None:
    found = [find_metric(name) for name in full_names()]
    assert len(found) == len(set(found)) + (len(SAMPLES) - 1) * 22 + (NUM_BUCKETS - 1) * 4
    assert len(full_names()) == len(set(full_names()))
    assert all(all((one.meaning, one.unit, one.healthy, one.advice)) for one in METRICS)
    assert list(dict.fromkeys(one.heading for one in METRICS)) == list(INTRODUCTIONS)


def test_headings_and_labels() -> None:
    assert {heading_of(name) for name in probe_metric_names()} == {"information"}
    assert {heading_of(name) for name in gradient_metric_names()} == {"gradients"}
    assert {heading_of(name) for name in ("reward_mine", "trained_return_mean")} == {"rewards"}
    assert heading_of("time_wait_s") == "time" and heading_of("return_mean") == "rollout"
    assert label_of("clip_fraction") == "clip fraction"
    assert label_of("any_turn_conditional_entropy_token") == "H(Z|X), any turn"


def test_every_chart_of_the_report_is_of_listed_metrics_of_one_unit() -> None:
    for curves in (*LEARNING, *REPLIES, *INFORMATION, *GRADIENTS, *THROUGHPUT):
        assert len({unit_of(name) for name in curves.metrics}) == 1, curves


def test_evaluations_hold_the_names_that_are_told() -> None:
    assert {heading_of(name) for name in rollout_statistics([])} == {"rollout", "engine"}


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
