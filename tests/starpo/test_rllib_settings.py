"""Every argument of every setter of RLlib's AlgorithmConfig has an effect that a test shows, or is refused by name."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.models.llm_module import LLMRLModule
from rllib_ragen.rollout.env_runner import LLMEnvRunner
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.checks.rllib_settings import REFUSED
from rllib_ragen.starpo.config import StarPOConfig
from tests.starpo.build import digits_config
from tests.starpo.honoured_settings import HONOURED

TOP = Path(__file__).parents[2]
ANYTHING = "anything at all"
VALUES: dict[str, Any] = {
    "batch_mode": "truncate_episodes",
    "count_steps_by": "agent_steps",
    "grad_clip_by": "value",
    "env": "bandit",
    "rollout_fragment_length": 7,
    "num_envs_per_env_runner": 3,
    "evaluation_num_workers": 2,
    "framework": "tf2",
    "enable_rl_module_and_learner": False,
    "enable_env_runner_and_connector_v2": False,
    "_validate_config": False,
    "callbacks_class": type("Mine", (RLlibCallback,), {}),
    "policies": {"a"},
    "policies_to_train": ["a"],
    "env_config": {"task": {}},
    **{key: {"x": 1} for key in ("evaluation_config", "custom_resources_per_learner", "learner_config_dict")},
    **{key: {"x": 1} for key in ("input_config", "optimizer", "exploration_config", "model")},
    "algorithm_config_overrides_per_module": {"a": {}},
}
"""Values that RLlib's setters take, where they do not take just anything."""


def arguments() -> Iterator[tuple[str, str]]:
    """(setter, argument) of all setters: the methods with arguments that need not be provided."""
    for name, method in inspect.getmembers(AlgorithmConfig, inspect.isfunction):
        parameters = inspect.signature(method).parameters
        if not name.startswith("_") and any(one.default is NotProvided for one in parameters.values()):
            yield from ((name, argument) for argument in parameters if argument != "self")


ARGUMENTS = list(arguments())


def said(setter: str, argument: str) -> StarPOConfig:
    config = StarPOConfig()
    getattr(config, setter)(**{argument: VALUES.get(argument, ANYTHING)})
    return config


def changed(config: StarPOConfig) -> set[str]:
    """Attributes whose values are not those of an untouched config."""
    fresh, twin = vars(StarPOConfig()), vars(StarPOConfig())
    return {name for name, value in vars(config).items() if name not in fresh or value != fresh[name]} - {
        name for name in fresh if fresh[name] != twin[name]
    }


def test_the_setters_are_found() -> None:
    assert {"env_runners", "training", "evaluation", "offline_data", "experimental"} <= {name for name, _ in ARGUMENTS}
    assert len(ARGUMENTS) > 250


def test_no_setting_is_both_honoured_and_refused() -> None:
    assert not HONOURED.keys() & REFUSED.keys()


@pytest.mark.parametrize(("setter", "argument"), ARGUMENTS)
def test_an_argument_has_an_effect_or_is_refused(setter: str, argument: str) -> None:
    try:
        config = said(setter, argument)
    except ValueError as error:
        assert argument in str(error), "a refusal says what is refused"
        return
    attributes = changed(config)
    assert attributes, f"{setter}({argument}=…) is taken and changes nothing"
    assert attributes <= HONOURED.keys() | REFUSED.keys(), "new in RLlib: honour it or refuse it"
    for attribute in attributes & REFUSED.keys():
        name = REFUSED[attribute][0].split("=")[0]
        with pytest.raises(ConfigError, match=rf"^{re.escape(name)}=.+ means nothing to StarPO: .+; allowed: "):
            config.validate()


def test_every_row_of_the_two_lists_is_a_setting_of_rllibs() -> None:
    reached: set[str] = set()
    for setter, argument in ARGUMENTS:
        try:
            reached |= changed(said(setter, argument))
        except ValueError:
            continue
    assert HONOURED.keys() | REFUSED.keys() == reached


@pytest.mark.parametrize("test", sorted(set(HONOURED.values())))
def test_the_test_that_shows_the_effect_is_there(test: str) -> None:
    path, name = test.split("::")
    tree = ast.parse((TOP / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(
    "settings",
    [
        {"train_batch_size": 4000},
        {"evaluation_parallel_to_training": True, "evaluation_num_env_runners": 1, "evaluation_duration": "auto"},
        {"output_write_episodes": False},
        {"observation_space": np.zeros(3)},
    ],
)
def test_a_dictionary_of_tunes_is_checked_like_setters(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(settings))}="):
        StarPOConfig().update_from_dict(settings).validate()


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"training": {"train_batch_size_per_learner": 512}}, r"training\(num_groups=…\) × training\(group_size=…\)"),
        ({"training": {"minibatch_size": 64}}, r"training\(num_minibatches=…\)"),
        ({"env_runners": {"num_envs_per_env_runner": 8}}, r"rollout\(max_concurrent=…\)"),
        ({"evaluation": {"evaluation_config": {"lr": 1e-3}}}, "the run's own settings, greedily and at its"),
        ({"evaluation": {"custom_evaluation_function": print}}, r"algo\.evaluate_split"),
        ({"framework": {"framework": "tf2"}}, "allowed: 'torch'"),
    ],
)
def test_a_refusal_says_what_to_say_instead(settings: dict[str, dict[str, Any]], hint: str) -> None:
    config = StarPOConfig()
    for setter, given in settings.items():
        getattr(config, setter)(**given)
    with pytest.raises(ConfigError, match=hint):
        config.validate()


class OtherModule(RLModule):
    """None of ours."""


@pytest.mark.parametrize(
    ("setter", "given", "message"),
    [
        ("evaluation", {"evaluation_duration": "auto"}, r"evaluation_duration='auto'\): must be an integer ≥ 1$"),
        ("evaluation", {"evaluation_interval": 0}, r"evaluation_interval=0\): must be an integer ≥ 1, or None"),
        ("reporting", {"metrics_num_episodes_for_smoothing": 2.5}, r"smoothing=2\.5\): must be an integer ≥ 1"),
        ("resources", {"num_cpus_for_main_process": -1}, r"main_process=-1\): must be a number ≥ 0"),
        ("learners", {"num_cpus_per_learner": "few"}, r"per_learner='few'\): must be a number ≥ 0, or 'auto'"),
        ("learners", {"learner_class": OtherModule}, "must be a class derived from StarPOLearner, not OtherModule"),
        ("learners", {"learner_connector": 3}, r"must be a function of \(observation space, action space\)"),
        ("env_runners", {"env_runner_cls": OtherModule}, "must be a class derived from LLMEnvRunner, not OtherModule"),
        ("env_runners", {"env_to_module_connector": []}, r"must be a function of \(env, spaces, device\)"),
        ("rl_module", {"rl_module_spec": RLModuleSpec(OtherModule)}, "class derived from LLMRLModule, not OtherModule"),
        ("rl_module", {"rl_module_spec": OtherModule}, "must be an RLModuleSpec or a MultiRLModuleSpec, not"),
        (
            "rl_module",
            {"rl_module_spec": RLModuleSpec(load_state_path="/somewhere")},
            r"RLModuleSpec\(load_state_path=…\)",
        ),
        (
            "rl_module",
            {"rl_module_spec": MultiRLModuleSpec(rl_module_specs={"b": RLModuleSpec()})},
            "there is no policy 'b'; allowed: default_policy",
        ),
        ("rl_module", {"model_config": {"temperature": 2}}, r"'temperature': 2\}\): allowed: rollout\(temperature=…\)"),
        ("rl_module", {"model_config": {"fcnet_hiddens": [1]}}, "'fcnet_hiddens': ….*LLMRLModule has no such setting"),
        (
            "rl_module",
            {"rl_module_spec": RLModuleSpec(LLMRLModule, model_config={"hidden": 1})},
            "'hidden': ….*LLMRLModule has no such setting",
        ),
        ("rl_module", {"algorithm_config_overrides_per_module": {"b": {"lr": 1}}}, "no such policy; allowed: default"),
        (
            "rl_module",
            {"algorithm_config_overrides_per_module": {"default_policy": {"clip_high": 1}}},
            "clip_high is the same for all policies; allowed: lr, critic_lr, betas",
        ),
        (
            "rl_module",
            {"algorithm_config_overrides_per_module": {"default_policy": {"lr": -1}}},
            r"'default_policy': …\}\): learner\.lr: must be",
        ),
    ],
)
def test_what_cannot_be_put_in_rllibs_places_is_refused(
    model: Path, setter: str, given: dict[str, Any], message: str
) -> None:
    config = digits_config(model)
    getattr(config, setter)(**given)
    with pytest.raises(ConfigError, match=message):
        config.validate()


def test_a_runner_of_ones_own_must_play_games_where_there_are_some(model: Path) -> None:
    config = StarPOConfig().environment("kuhn_poker").llm(model=str(model))
    config.env_runners(env_runner_cls=type("Mine", (LLMEnvRunner,), {}))
    with pytest.raises(ConfigError, match="must be a class derived from MultiAgentLLMEnvRunner, not Mine"):
        config.validate()


@pytest.mark.parametrize(
    ("method", "instead"),
    [
        ("compute_single_action", r"algo\.chat\(messages\)"),
        ("compute_actions", r"algo\.chat\(messages\)"),
        ("get_policy", r"algo\.get_module\(policy_id\)"),
        ("add_policy", r"multi_agent\(policies=…"),
        ("remove_policy", r"multi_agent\(policies=…"),
        ("add_module", r"multi_agent\(policies=…"),
        ("remove_module", r"multi_agent\(policies=…"),
        ("evaluate_offline", r"algo\.evaluate_split"),
        ("export_policy_model", r"algo\.export_model"),
        ("export_policy_checkpoint", r"algo\.export_model"),
    ],
)
def test_methods_of_the_old_stack_say_what_to_call(method: str, instead: str) -> None:
    algo = StarPO.__new__(StarPO)
    with pytest.raises(ValueError, match=rf"StarPO\.{method}: .*{instead}"):
        getattr(algo, method)()
    assert hasattr(super(StarPO, algo), method), "RLlib has it no more"
