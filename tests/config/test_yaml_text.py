"""YAML is YAML 1.2's core schema, in and out, everywhere."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import parse_assignments, read_yaml
from rllib_ragen.config.yaml_text import YAMLError, dump_yaml, parse_yaml
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.sweep.spec import read_sweep

TOP = Path(__file__).parents[2]
CORE: dict[str, Any] = {
    **{text: text for text in ("off", "on", "yes", "no", "Off", "NO", "y", "n", "1:30", "1_000", "0b1", "2024-01-31")},
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", "")),
    "010": 10,
    "+12": 12,
    "-7": -7,
    "0o17": 15,
    "0x1F": 31,
    "1e-4": 1e-4,
    ".5": 0.5,
    "5.": 5.0,
    "2E3": 2000.0,
    "1e": "1e",
    ".inf": float("inf"),
    "-.INF": -float("inf"),
    "'off'": "off",
    '"1"': "1",
}


@pytest.mark.parametrize("text", CORE)
def test_plain_scalars_are_those_of_the_core_schema(text: str) -> None:
    found = parse_yaml(text)
    assert found == CORE[text] and type(found) is type(CORE[text])


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(list(CORE)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)


@given(PLAIN)
def test_what_is_dumped_is_read_back_the_same(tree: Any) -> None:
    assert parse_yaml(dump_yaml(tree)) == tree


@given(st.text() | st.sampled_from(list(CORE)))
def test_a_text_is_a_text_for_readers_of_yaml_1_1_too(text: str) -> None:
    assert yaml.safe_load(dump_yaml({"key": text})) == {"key": text}


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2", "[" * 5000, "{[1]: 2}", "x: !!python/name:os.system", "9" * 5000, "a: b: c"]
)
def test_what_is_no_yaml_is_a_yaml_error(text: str) -> None:
    with pytest.raises(YAMLError):
        parse_yaml(text)


def test_off_is_the_default_of_overlap_on_the_command_line_in_yaml_and_in_sweeps(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("rollout: {overlap: off}\nalarms: {repetition: off}\n")
    for layer in (
        parse_assignments(["rollout.overlap=off", "alarms.repetition=off"]),
        read_yaml(tmp_path / "run.yaml"),
    ):
        config = build_config(layer)
        assert (config.rollout.overlap, config.alarms.repetition) == ("off", "off")
    (tmp_path / "sweep.yaml").write_text(
        "name: x\nbase: {rollout: {num_env_runners: 1, overlap: off}}\n"
        "space: {rollout.overlap: {choice: [off, one_step_off]}}\n"
    )
    spec = read_sweep(read_yaml(tmp_path / "sweep.yaml"), tmp_path)
    assert [spec.config(values, 0).rollout.overlap for values in spec.combinations()] == ["off", "one_step_off"]


@pytest.mark.parametrize("word", ["off", "on", "yes", "no", "1", "0", "'true'"])
@pytest.mark.parametrize("key", ["env.think", "vllm.sleep", "vllm.enforce_eager", "learner.gradient_checkpointing"])
def test_only_true_and_false_are_truth_values(key: str, word: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: must be true or false"):
        build_config(parse_assignments([f"{key}={word}"]))
    assert build_config(parse_assignments([f"{key}=true"]))


@pytest.mark.parametrize("word", ["1_000", "1:30", "'8'", "yes", "true", "0b1"])
def test_a_text_is_no_number(word: str) -> None:
    with pytest.raises(ConfigError, match=r"^rollout.group_size: must be an integer ≥ 1"):
        build_config(parse_assignments([f"rollout.group_size={word}"]))
    assert build_config(parse_assignments(["rollout.group_size=010"])).rollout.group_size == 10


def test_nothing_else_reads_or_writes_yaml() -> None:
    found = [
        f"{path.relative_to(TOP)}:{node.lineno}"
        for folder in ("envs", "rllib_ragen", "benchmarks", "examples")
        for path in (TOP / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "yaml" in {alias.name for alias in node.names} | {getattr(node, "module", None)}
    ]
    assert {place.split(":")[0] for place in found} == {"rllib_ragen/config/yaml_text.py"}
