"""Config: one schema, three ways in, errors in one sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_envs.registry import env_names
from rllib_ragen.config.command_line import key_table, make_parser, read_layers
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import flatten, merge, nest, parse_assignments, preset, read_yaml, save_config
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.yaml_text import parse_yaml
from rllib_ragen.starpo.checks.build_config import build_config

KEYS = flatten(RunConfig().model_dump(mode="json"))


def from_assignments(*assignments: str) -> RunConfig:
    return build_config(parse_assignments(assignments))


def test_yaml_flags_set_and_python_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("learner: {lr: 3e-4}\nrollout: {group_size: 8}\ncredit: {estimator: grpo}\nseed: 5\n")
    options = make_parser("run", "").parse_args(
        ["--lr", "3e-4", "--group-size", "8", "--estimator", "grpo", "--seed", "5"]
    )
    flags, _ = read_layers(options)
    sets = parse_assignments(["learner.lr=3e-4", "rollout.group_size=8", "credit.estimator=grpo", "seed=5"])
    python = RunConfig()
    python.learner.lr, python.rollout.group_size, python.credit.estimator, python.seed = 3e-4, 8, "grpo", 5
    assert build_config(read_yaml(file)) == build_config(flags) == build_config(sets) == python


def test_later_layers_win_and_leave_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("learner: {lr: 1e-3, clip_low: 0.1}\niterations: 3\n")
    options = make_parser("run", "").parse_args(["--lr", "2e-3", "--iterations", "4", "--set", "learner.lr=3e-3"])
    flags, sets = read_layers(options)
    config = build_config(read_yaml(file), flags, sets)
    assert (config.learner.lr, config.learner.clip_low, config.iterations) == (3e-3, 0.1, 4)
    assert config.learner.clip_high == RunConfig().learner.clip_high


def test_set_takes_several_and_may_be_repeated() -> None:
    options = make_parser("run", "").parse_args(["--set", "seed=1", "iterations=2", "--set", "seed=3"])
    assert read_layers(options)[1] == {"seed": 3, "iterations": 2}


@pytest.mark.parametrize("name", env_names())
def test_every_preset_is_a_valid_config(name: str) -> None:
    assert build_config(preset(name)).env.name == name


def test_saved_config_reads_back_the_same(tmp_path: Path) -> None:
    config = build_config(preset("frozen_lake"), parse_assignments(["learner.clip_dual=null", "seed=7"]))
    save_config(config, tmp_path / "config.yaml")
    assert build_config(read_yaml(tmp_path / "config.yaml")) == config
    assert parse_yaml((tmp_path / "config.yaml").read_text())["seed"] == 7


@given(st.dictionaries(st.sampled_from(sorted(KEYS)), st.integers() | st.booleans() | st.text(max_size=5), max_size=6))
def test_any_values_give_a_config_or_one_sentence_with_a_key(values: dict[str, Any]) -> None:
    try:
        build_config(*(nest(key, value) for key, value in values.items()))
    except ConfigError as error:
        assert "\n" not in str(error)
        assert any(key in str(error) for key in values)


@given(st.recursive(st.integers(), lambda inner: st.dictionaries(st.text("ab", min_size=1, max_size=2), inner)))
def test_merge_with_nothing_is_the_same_and_with_itself_too(tree: Any) -> None:
    layer = {"x": tree}
    assert merge(layer) == merge(layer, {}) == merge({}, layer) == merge(layer, layer) == layer


BAD = {
    "misspelt key": ("learner.lrr=1", "learner.lrr: unknown key; did you mean lr\\? allowed: num_learners,"),
    "key without section": ("lr=1", "lr: unknown key; .*allowed: env, envs, model,"),
    "value for a section": ("learner=3", "learner: must be a section with some of the keys num_learners,"),
    "key of no section": ("learner.lr.x=3", "learner.lr: must be a number > 0 and ≤ 10, got"),
    "below its range": ("learner.lr=-1", "learner.lr: must be a number > 0 and ≤ 10, got -1"),
    "out of two bounds": ("rollout.top_p=1.5", "rollout.top_p: must be a number > 0 and ≤ 1, got 1.5"),
    "not finite": ("learner.lr=.inf", "learner.lr: must be a number > 0 and ≤ 10, got inf"),
    "not a number": ("rollout.group_size=four", "rollout.group_size: must be an integer ≥ 1 and ≤ 1000000, got 'four'"),
    "truth for a number": (
        "rollout.group_size=true",
        "rollout.group_size: must be an integer ≥ 1 and ≤ 1000000, got True",
    ),
    "no such choice": ("rollout.engine=sglang", "rollout.engine: must be one of auto, hf, vllm, got 'sglang'"),
    "bound or null": (
        "learner.clip_dual=0.5",
        "learner.clip_dual: must be a number > 1 and ≤ 1e\\+06, or null, got 0.5",
    ),
    "wrong length": ("learner.betas=[0.9]", "learner.betas: must be a list of 2, each a number ≥ 0 and < 1, got"),
    "name with a slash": ("name=a/b", "name: must be a text of letters, digits and . _ -, or null, got 'a/b'"),
    "unknown environment": ("env.name=sokobon", "env.name: unknown environment 'sokobon'.* did you mean 'sokoban'"),
    "unknown task setting": ("env.task.dimm=3", "env.task: .*dimm"),
    "wrong task setting": ("env.task.height=2", "env.task: .*height"),
    "task setting of a wrong type": ("env.task.height=tall", "env.task: "),
    "unknown estimator": (
        "credit.estimator=grppo",
        "credit.estimator: unknown estimator 'grppo'; allowed: .*; did you mean 'grpo'",
    ),
    "algorithm for an estimator": ("credit.estimator=gspo", "gspo is a whole algorithm, .* give --algorithm gspo"),
    "share above one": (
        "credit.filter_value=2 credit.filter=top_p",
        "credit.filter=top_p: must be a share > 0 and ≤ 1",
    ),
    "half a group": ("credit.filter_value=2.5 credit.filter=top_k_abs", "top_k_abs: must be a number of groups"),
    "share of what may be negative": (
        "credit.filter=top_p credit.filter_metric=reward",
        "credit.filter=top_p with credit.filter_metric=reward: .* allowed with it are",
    ),
    "smallest near the largest": ("credit.filter=min_p credit.filter_direction=smallest", "allowed is largest"),
    "flat groups replaced and kept": (
        "credit.dynamic_sampling_rounds=2 credit.filter_zero_spread=true",
        "credit.filter_zero_spread=true with credit.dynamic_sampling_rounds=2",
    ),
    "a group of one": ("rollout.group_size=1", "rollout.group_size=1 with credit.estimator=rloo"),
    "vllm in the driver": ("rollout.engine=vllm", "a vLLM engine needs a process of its own"),
    "truncated sampling": ("rollout.top_p=0.9", "rollout.top_p=0.9: .* ratio would be biased"),
    "top k": ("rollout.top_k=20", "rollout.top_k=20: .* ratio would be biased"),
    "reply beyond context": ("rollout.max_reply_tokens=1024", "must be below rollout.max_context_tokens=1024"),
    "more minibatches than data": ("learner.num_minibatches=129", "more than the 128 trajectories"),
    "no equals sign": ("learner.lr", "--set learner.lr: must be key=value"),
    "empty key": ("learner.=1", "must be key=value"),
    "no yaml": ("seed=[1", "the value is not YAML"),
}


@pytest.mark.parametrize(("assignment", "says"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence(assignment: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        from_assignments(*assignment.split(" "))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("estimator", ["grpo", "rloo", "dr_grpo", "gigpo", "turn_grpo", "reinforce++_baseline"])
def test_a_group_of_one_is_refused_by_every_estimator_that_compares(estimator: str) -> None:
    with pytest.raises(ConfigError, match=f"rollout.group_size=1 with credit.estimator={re.escape(estimator)}"):
        from_assignments("rollout.group_size=1", f"credit.estimator={estimator}")


@pytest.mark.parametrize("estimator", ["gae", "bi_level_gae", "reinforce++"])
def test_a_group_of_one_is_fine_where_nothing_is_compared(estimator: str) -> None:
    alone = ("rollout.group_size=1", f"credit.estimator={estimator}")
    assert from_assignments(*alone, "credit.reward_grouping=batch", "credit.reward_norm=mean").rollout.group_size == 1
    comparing = ("filter=top_p", "dynamic_sampling_rounds=1", "group_weighting=spread", "reward_norm=mean")
    for compares in (f"credit.{key}" for key in comparing):
        with pytest.raises(ConfigError, match=f"rollout.group_size=1 with {compares}, .* allowed are ≥ 2$"):
            from_assignments(*alone, compares)


def test_further_faults_are_counted() -> None:
    with pytest.raises(ConfigError, match=re.escape("(and 1 more)")):
        from_assignments("learner.lr=-1", "seed=-1")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- 1\n- 2\n", "must hold a mapping"),
        ("seed: [1\n", "is not YAML"),
        ("seed: 1\nseed: 2\n", "'seed' is given twice"),
        ("!!python/object/apply:os.getcwd []\n", "is not YAML"),
    ],
)
def test_a_file_that_is_no_config_says_so(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=says) as caught:
        read_yaml(file)
    assert str(file) in str(caught.value)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_yaml(tmp_path / "none.yaml")


def test_yaml_numbers_are_numbers_also_in_task_settings() -> None:
    assert parse_assignments(["env.task.p=1e-1", "env.task.q=2E3", "env.task.n=12"]) == {
        "env": {"task": {"p": 0.1, "q": 2000.0, "n": 12}}
    }
    assert parse_assignments(["env.task.name=1e"]) == {"env": {"task": {"name": "1e"}}}


def test_prompts_are_brief_for_the_embedded_model_and_full_for_others_unless_asked() -> None:
    assert RunConfig().text_limits().prompt_style == "brief"
    assert build_config({"model": {"path": "some/model"}}).text_limits().prompt_style == "full"
    asked = build_config({"model": {"path": "some/model"}, "env": {"prompt_style": "brief", "max_turns": 2}})
    assert (asked.text_limits().prompt_style, asked.text_limits().max_turns) == ("brief", 2)


def test_the_table_of_keys_has_every_key_and_what_it_means() -> None:
    lines = key_table().splitlines()[1:]
    names = [line.split()[0] for line in lines]
    assert [name for name in names if name in KEYS] == list(KEYS)
    assert {name.split("[")[0].split(".")[0] for name in names if name not in KEYS} == {"env", "envs", "rewards"}, (
        "optional ones, and lists"
    )
    assert all(len(line) > 92 for line in lines)
