"""StarPOConfig: the same keys as RunConfig, strict, and refused early when they make no sense."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.section import Section
from rllib_ragen.starpo import write_setters
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.attributes import ATTRIBUTES, flat_attributes, setter_of
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.setters import FluentSetters
from tests.starpo.build import digits_config, metrics_of


def test_the_setters_are_those_of_the_schema() -> None:
    said = "run python -m rllib_ragen.starpo.write_setters"
    assert write_setters.FILE.read_text(encoding="utf-8") == write_setters.source(), said


def test_every_key_of_the_run_config_has_one_setter_and_every_setter_sets_it() -> None:
    config = StarPOConfig()
    for attribute, (section, key) in ATTRIBUTES.items():
        argument = {"model_path": "model"}.get(attribute, key if section == "alarms" else attribute)
        setters = [
            name
            for name, method in inspect.getmembers(FluentSetters, inspect.isfunction)
            if argument in inspect.signature(method).parameters and method.__module__ == FluentSetters.__module__
        ]
        assert setters == ([setter_of(attribute)] if setter_of(attribute) else []), (section, key)
        if setters:
            value = object()
            getattr(config, setters[0])(**{argument: value})
            assert getattr(config, attribute) is value


def test_rllibs_own_arguments_are_taken_where_rllib_has_a_setter_of_the_name() -> None:
    config = StarPOConfig().fault_tolerance(hang_timeout_s=7, restart_failed_env_runners=False)
    assert (config.hang_timeout_s, config.restart_failed_env_runners) == (7, False)
    config.multi_agent(illegal_move="retry", policies={"a", "b"}, policy_mapping_fn=lambda *_, **__: "a")
    assert (config.illegal_move, set(config.policies)) == ("retry", {"a", "b"})
    for setter in (config.multi_agent, config.fault_tolerance, config.training):
        with pytest.raises(TypeError, match="nonsense"):
            setter(nonsense=1)


def test_equal_keys_of_two_sections_are_refused() -> None:
    class One(Section):
        speed: int = 1

    class Two(Section):
        speed: int = 2

    with pytest.raises(ValueError, match=r"one\.speed and two\.speed would both be 'speed'"):
        flat_attributes({"one": One, "two": Two}, {})
    assert flat_attributes({"one": One, "two": Two}, {("two", "speed"): "pace"}).keys() == {"speed", "pace"}


def test_defaults_are_those_of_the_run_config() -> None:
    config = StarPOConfig()
    assert config.to_run_config() == RunConfig()
    assert StarPOConfig.from_run_config(RunConfig()).to_run_config() == RunConfig()


def test_a_run_config_survives_the_way_there_and_back() -> None:
    run = RunConfig.model_validate(
        {
            "env": {"name": "frozen_lake", "task": {"success_rate": 0.9}, "max_turns": 3, "prompt_style": "full"},
            "rollout": {"num_groups": 5, "timeout_s": 7.0, "temperature": 0.9},
            "credit": {"estimator": "grpo", "filter": "top_p"},
            "learner": {"lr": 3e-4, "betas": (0.8, 0.95), "clip_dual": None},
            "seed": 4,
        }
    )
    assert StarPOConfig.from_run_config(run).to_run_config() == run


def test_a_falling_schedule_ends_with_the_run_unless_it_is_told_otherwise() -> None:
    run = RunConfig.model_validate({"learner": {"lr_schedule": "linear"}, "iterations": 30})
    assert StarPOConfig.from_run_config(run).decay_iterations == 30
    run.learner.decay_iterations = 50
    assert StarPOConfig.from_run_config(run).decay_iterations == 50
    assert StarPOConfig.from_run_config(RunConfig()).decay_iterations is None


def test_copies_and_tune_dictionaries_keep_every_setting() -> None:
    config = StarPOConfig().training(lr=3e-4, estimator="gae").environment("bandit")
    for twin in (
        config.copy(),
        StarPOConfig().update_from_dict(config.to_dict()),
        StarPOConfig.from_state(config.get_state()),
    ):
        assert twin.to_run_config() == config.to_run_config()


def test_an_environment_has_its_short_name_wherever_rllib_takes_one(model: Path) -> None:
    """In a Tune dictionary, and in `build_algo`, which is stopped here by a learning rate that cannot be.

    It is −1, RLlib's mark of deprecated settings: its copy of a config would have the default in its place.
    """
    config = StarPOConfig().update_from_dict({"env": "bandit", "env_config": {"limits": {"max_turns": 1}}})
    assert (config.to_run_config().env.name, config.to_run_config().env.max_turns) == ("bandit", 1)
    with pytest.raises(ValueError, match="sokobn"):
        StarPOConfig().update_from_dict({"env": "sokobn"})
    config = StarPOConfig().training(lr=-1.0)
    with pytest.raises(ValueError, match=r"learner\.lr"):
        config.build_algo(env="frozen_lake")
    assert config.training(lr=1e-4).to_run_config().env.name == "frozen_lake"


def test_unknown_arguments_and_keys_are_refused() -> None:
    with pytest.raises(TypeError, match="clip_hihg"):
        StarPOConfig().training(clip_hihg=0.3)
    with pytest.raises(ValueError, match="'clip_hihg'; did you mean 'clip_high'"):
        StarPOConfig().update_from_dict({"clip_hihg": 0.3})
    with pytest.raises(ValueError, match="sokobn"):
        StarPOConfig().environment("sokobn")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group_size": 1, "estimator": "grpo"}, "group_size=1"),
        ({"group_size": 1, "estimator": "rloo"}, "group_size=1"),
        ({"estimator": "magic"}, "magic"),
        ({"lr": -1.0}, "learner.lr"),
        ({"clip_high": "a lot"}, "learner.clip_high"),
        ({"num_minibatches": 1000}, "num_minibatches"),
        ({"norm_tokens": 100}, r"learner\.norm_tokens=100 with learner\.aggregation=token-mean"),
        ({"decay_iterations": 10}, r"learner\.decay_iterations=10 with learner\.lr_schedule=constant"),
        ({"lr_schedule": "cosine"}, r"learner\.decay_iterations: must be an integer ≥ 1 with lr_schedule=cosine"),
        (
            {"lr_schedule": "linear", "warmup_iterations": 9, "decay_iterations": 9},
            r"learner\.warmup_iterations=9 leaves nothing of learner\.lr_schedule=linear; allowed: below 9",
        ),
        ({"kl_estimator": "k4"}, r"learner\.kl_estimator: must be one of k1, k2, k3"),
        (
            {"sharding": "fsdp2"},
            r"learner\.num_learners=0 with learner\.sharding=fsdp2, which splits the weights among",
        ),
        (
            {"overlong_cache": 9},
            r"credit\.overlong_cache=9 is more than a reply may have \(rollout\.max_reply_tokens=8\)",
        ),
        ({"sharding": "fsdp"}, r"learner\.sharding: must be one of ddp, fsdp2"),
        ({"tis_cap": 0}, r"learner\.tis_cap: must be a number > 0 and ≤ 1e\+06, or null"),
    ],
)
def test_nonsense_in_training_is_refused(model: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        digits_config(model, **settings).validate()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "vllm"}, "vllm"),
        ({"engine": "magic"}, "engine"),
        ({"top_p": 0.9}, "top_p"),
        ({"temperature": 0.0}, "temperature"),
        ({"max_context_tokens": 100_000}, "model's length of 512"),
        ({"max_reply_tokens": 400}, "max_reply_tokens"),
    ],
)
def test_nonsense_in_rollouts_is_refused(model: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        digits_config(model).rollout(**settings).validate()  # type: ignore[arg-type]


def test_a_folder_without_model_or_tokenizer_is_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no transformers model"):
        digits_config(tmp_path).validate()
    with pytest.raises(ValueError, match=r"there is no folder"):
        digits_config(tmp_path / "nowhere").validate()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    with pytest.raises(ValueError, match=r"holds no tokenizer"):
        digits_config(tmp_path).validate()


def test_misspelt_environment_settings_are_refused(model: Path) -> None:
    for env_config, message in (
        ({"limits": {"max_turn": 3}}, "max_turn"),
        ({"task": {"hight": 6}}, "hight"),
        ({"tasks": {}}, "'tasks'; allowed: task, limits"),
    ):
        with pytest.raises(ValueError, match=message):
            digits_config(model).environment("sokoban", env_config=env_config).validate()


@pytest.mark.usefixtures("local_ray")
def test_yaml_and_fluent_configs_make_the_same_run(model: Path) -> None:
    run = RunConfig.model_validate(
        {
            "env": {"name": "sokoban", "max_turns": 2, "task": {"height": 5}},
            "model": {"path": str(model)},
            "rollout": {"num_groups": 2, "group_size": 2, "max_reply_tokens": 6, "max_context_tokens": 512},
            "seed": 11,
        }
    )
    fluent = (
        StarPOConfig()
        .environment("ragen/Sokoban-v0", env_config={"task": {"height": 5}, "limits": {"max_turns": 2}})
        .llm(model=str(model))
        .rollout(max_reply_tokens=6, max_context_tokens=512)
        .training(num_groups=2, group_size=2)
        .debugging(seed=11)
    )
    runs = []
    for config in (StarPOConfig.from_run_config(run), fluent):
        algo: StarPO = config.build_algo()
        runs.append([metrics_of(algo.train()) for _ in range(2)])
        algo.stop()
    assert runs[0] == runs[1]


@pytest.mark.usefixtures("local_ray")
def test_the_builders_hooks_of_rllib_that_are_overridden_exist(model: Path) -> None:
    """Contract with RLlib 2.60: each override replaces something that RLlib calls."""
    from ray.rllib.algorithms.algorithm import Algorithm
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.learner.torch.torch_learner import TorchLearner
    from ray.rllib.core.learner.training_data import TrainingData
    from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
    from ray.rllib.env.env_runner import EnvRunner

    from rllib_ragen.learner.learner import StarPOLearner
    from rllib_ragen.learner.training_data import TokenTrainingData
    from rllib_ragen.models.llm_module import LLMRLModule
    from rllib_ragen.rollout.env_runner import LLMEnvRunner

    overrides = {
        (StarPO, Algorithm): "setup training_step evaluate restore_env_runners save_checkpoint load_checkpoint"
        " save_to_path restore_from_path from_checkpoint get_default_config",
        (StarPOConfig, AlgorithmConfig): "environment training update_from_dict validate get_default_rl_module_spec"
        " get_default_learner_class env_runners build_learner_group",
        (StarPOLearner, TorchLearner): "build update configure_optimizers_for_module compute_loss_for_module",
        (LLMRLModule, TorchRLModule): "setup train _forward get_state set_state",
        (LLMEnvRunner, EnvRunner): "make_env make_module sample get_metrics get_spaces assert_healthy stop",
        (TokenTrainingData, TrainingData): "validate shard solve_refs",
    }
    for (own, base), names in overrides.items():
        for name in names.split():
            assert hasattr(base, name), f"RLlib has no {base.__name__}.{name} any more"
            assert getattr(own, name) is not getattr(base, name), f"{own.__name__} does not override {name}"
