"""docs/algorithms.md and the code agree on what can be chosen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import yaml

from rllib_ragen.config.load import algorithm_preset
from rllib_ragen.config.presets import algorithm_names
from rllib_ragen.config.schema import CreditSection, LearnerSection, RunConfig
from rllib_ragen.credit.filter_rules import filter_names
from rllib_ragen.credit.registry import estimator_names

PAGE = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text()


def section_of(heading: str) -> str:
    return PAGE.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]


def names_in_table(heading: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)`", section_of(heading), flags=re.MULTILINE)


def allowed(key: str) -> tuple[str, ...]:
    return get_args(CreditSection.model_fields[key].annotation)


def test_tables_name_every_estimator_and_filter() -> None:
    assert sorted(names_in_table("Estimators")) == estimator_names()
    metrics = {
        name
        for names in re.findall(r"^\| (`.+?`) \|", section_of("Filters"), re.MULTILINE)
        for name in names.split(", ")
    }
    choices = {f"`{name}`" for name in (*filter_names(), *allowed("filter_metric"))}
    assert metrics == choices
    assert sorted(names_in_table("Rewards")) == sorted(allowed("reward_norm"))


def test_the_table_of_algorithms_is_what_ships_with_the_estimators_that_are_set() -> None:
    told = dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)`", section_of("Algorithms"), re.MULTILINE))
    assert told == {name: algorithm_preset(name)["credit"]["estimator"] for name in algorithm_names()}


def test_every_key_of_the_credit_section_is_explained() -> None:
    assert [key for key in CreditSection.model_fields if f"{key}`" not in PAGE and f"`credit.{key}" not in PAGE] == []


def test_every_aggregation_is_explained() -> None:
    for name in get_args(LearnerSection.model_fields["aggregation"].annotation):
        assert f"`{name}` (" in PAGE


def test_the_config_snippet_is_a_valid_config() -> None:
    snippet = "\n".join(line[4:] for line in PAGE.splitlines() if line.startswith(("    credit:", "    learner:")))
    config = RunConfig.model_validate(yaml.safe_load(snippet))
    assert config.credit.normalize == "batch" and config.learner.clip_high == 0.28


def test_the_default_estimator_is_the_one_said() -> None:
    assert f"`{CreditSection.model_fields['estimator'].default}` (default)" in PAGE
