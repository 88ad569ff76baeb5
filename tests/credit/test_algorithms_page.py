"""docs/algorithms.md and the code agree on what can be chosen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import yaml

from rllib_ragen.config import CreditSection, LearnerSection, RunConfig
from rllib_ragen.credit.registry import estimator_names

PAGE = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text()


def names_in_table(heading: str) -> list[str]:
    section = PAGE.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `([^`]+)`", section, flags=re.MULTILINE)


def test_tables_name_every_estimator_and_filter() -> None:
    assert sorted(names_in_table("Estimators")) == estimator_names()
    assert sorted(names_in_table("Filters")) == sorted(get_args(CreditSection.model_fields["filter"].annotation))


def test_every_aggregation_is_explained() -> None:
    for name in get_args(LearnerSection.model_fields["aggregation"].annotation):
        assert f"`{name}` (" in PAGE


def test_the_config_snippet_is_a_valid_config() -> None:
    snippet = "\n".join(line[4:] for line in PAGE.splitlines() if line.startswith(("    credit:", "    learner:")))
    config = RunConfig.model_validate(yaml.safe_load(snippet))
    assert config.credit.normalize == "batch" and config.learner.clip_high == 0.28


def test_the_default_estimator_is_the_one_said() -> None:
    assert f"`{CreditSection.model_fields['estimator'].default}` (default)" in PAGE
