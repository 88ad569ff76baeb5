"""What a user puts in RLlib's places: classes of their own, connectors, counts; refused where StarPO cannot take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.faults.private_names.of_rllib_config import (
    ENV_TO_MODULE,
    LEARNER_CLASS,
    LEARNER_CONNECTOR,
    MODEL_CONFIG,
    MODULE_TO_ENV,
    RL_MODULE_SPEC,
    setting,
)

_COUNTS: Mapping[str, tuple[str, int]] = {
    "evaluation_interval": ("evaluation", 1),
    "evaluation_duration": ("evaluation", 1),
    "metrics_num_episodes_for_smoothing": ("reporting", 1),
    "max_num_env_runner_restarts": ("fault_tolerance", 0),
    "local_gpu_idx": ("learners", 0),
}
"""Whole numbers: attribute → (setter, least)."""
_AMOUNTS: Mapping[str, str] = {
    "num_cpus_for_main_process": "resources",
    "num_cpus_per_env_runner": "env_runners",
    "num_cpus_per_learner": "learners",
    "delay_between_env_runner_restarts_s": "fault_tolerance",
}
"""Numbers ≥ 0: attribute → setter."""
_NONE_TOO = {"evaluation_interval": None, "num_cpus_per_learner": "auto"}
"""Values that are no numbers, and allowed."""
_CONNECTORS: Mapping[str, tuple[str, str]] = {
    ENV_TO_MODULE: ("env_runners(env_to_module_connector=…)", "(env, spaces, device)"),
    MODULE_TO_ENV: ("env_runners(module_to_env_connector=…)", "(env, spaces)"),
    LEARNER_CONNECTOR: ("learners(learner_connector=…)", "(observation space, action space)"),
}
_OF_OTHER_SETTERS: Mapping[str, str] = {
    "path": "llm(model=…)",
    "dtype": "llm(dtype=…)",
    "temperature": "rollout(temperature=…)",
    "value_head": "training(estimator=…)",
    "seed": "debugging(seed=…)",
    "grouped_attention": "learners(num_gpus_per_learner=…)",
    "lora": "training(lora_rank=…)",
}
"""Keys of a module's `model_config` that follow from other settings."""
OF_A_MODULE = ("lr", "critic_lr", "betas", "adam_eps", "weight_decay")
"""Settings that may differ from policy to policy: those of its optimisers."""
_UNSET_OF_ONE = ("observation_space", "action_space", "catalog_class", "load_state_path", "learner_only")
_UNSET_OF_ALL = (
    *("observation_space", "action_space", "model_config", "load_state_path", "modules_to_load", "inference_only"),
)
"""What a spec may not say, of one module and of all."""
_SPEC = "rl_module(rl_module_spec=…)"


def check_rllib_parts(config: AlgorithmConfig, several_agents: bool, check: Callable[[Any], object]) -> None:
    """Refuses what cannot be put in RLlib's places.

    Args:
        config: to be checked.
        several_agents: whether its environments have several.
        check: raises ConfigError for a config whose keys are out of range.

    Raises:
        ConfigError: one sentence that names the setter's argument.
    """
    _check_numbers(config)
    _check_evaluation(config)
    _check_classes(config, several_agents)
    for attribute, (name, arguments) in _CONNECTORS.items():
        made = setting(config, attribute)
        if made is not None and not callable(made):
            raise ConfigError(
                f"{name}: must be a function of {arguments} that returns ConnectorV2 pieces, not {made!r}"
            )
    _check_overrides(config, check)


def _check_numbers(config: AlgorithmConfig) -> None:
    for attribute, (setter, least) in _COUNTS.items():
        value = getattr(config, attribute)
        if not _is_whole(value, least) and not _is_allowed_too(attribute, value):
            raise ConfigError(f"{setter}({attribute}={value!r}): must be an integer ≥ {least}{_or(attribute)}")
    for attribute, setter in _AMOUNTS.items():
        value = getattr(config, attribute)
        if not _is_amount(value) and not _is_allowed_too(attribute, value):
            raise ConfigError(f"{setter}({attribute}={value!r}): must be a number ≥ 0{_or(attribute)}")


def _check_evaluation(config: AlgorithmConfig) -> None:
    given = config.evaluation_config
    if given is None or (isinstance(given, Mapping) and not given):
        return
    said = f"evaluation(evaluation_config={given!r:.60})"
    if not isinstance(given, Mapping) or set(given) != {"explore"} or not isinstance(given["explore"], bool):
        raise ConfigError(
            f"{said} means nothing to StarPO: evaluations are played with the run's own settings, greedily and at its"
            ' rollout(temperature=…); allowed: {"explore": False}, for RLlib\'s metrics of the greedy ones'
        )


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def _is_allowed_too(attribute: str, value: object) -> bool:
    return attribute in _NONE_TOO and value == _NONE_TOO[attribute]


def _or(attribute: str) -> str:
    return f", or {_NONE_TOO[attribute]!r}" if attribute in _NONE_TOO else ""


def _check_classes(config: AlgorithmConfig, several_agents: bool) -> None:
    from rllib_ragen.learner.learner import StarPOLearner
    from rllib_ragen.rollout.env_runner import LLMEnvRunner
    from rllib_ragen.rollout.game_env_runner import MultiAgentLLMEnvRunner

    _check_class("learners(learner_class=…)", setting(config, LEARNER_CLASS), StarPOLearner)
    runner_class = MultiAgentLLMEnvRunner if several_agents else LLMEnvRunner
    _check_class("env_runners(env_runner_cls=…)", config.env_runner_cls, runner_class)
    _check_modules(config)


def _check_modules(config: AlgorithmConfig) -> None:
    from rllib_ragen.models.llm_module import LLMRLModule

    given = setting(config, MODEL_CONFIG)
    if not isinstance(given, Mapping):
        raise ConfigError(f"rl_module(model_config=…): must be a dict of settings, not {given!r}")
    spec = setting(config, RL_MODULE_SPEC)
    specs = _specs(spec, config.policies)
    settings: Tree = {**given}
    for one in specs:
        _check_class(f"{_SPEC} with module_class", one.module_class, LLMRLModule)
        settings |= one.model_config or {}
    for key, value in settings.items():
        if key in _OF_OTHER_SETTERS:
            raise ConfigError(f"rl_module(model_config={{{key!r}: {value!r}}}): allowed: {_OF_OTHER_SETTERS[key]}")
    if settings and not {one.module_class for one in specs} - {None, LLMRLModule}:
        raise ConfigError(
            f"rl_module(model_config={{{min(settings)!r}: …}}): LLMRLModule has no such setting; allowed: those of a"
            f" subclass of yours, {_SPEC}, and the model's own in llm(…)"
        )


def _check_class(name: str, given: object, wanted: type) -> None:
    if given is not None and not (isinstance(given, type) and issubclass(given, wanted)):
        shown = given.__name__ if isinstance(given, type) else repr(given)
        raise ConfigError(f"{name}: must be a class derived from {wanted.__name__}, not {shown}")


def _specs(spec: object, policies: Mapping[str, object]) -> list[RLModuleSpec]:
    """Returns the modules' specs that a user gives.

    Raises:
        ConfigError: something that is none, or says what StarPO decides.
    """
    if spec is None:
        return []
    if isinstance(spec, MultiRLModuleSpec):
        unknown = sorted(set(spec.rl_module_specs or {}) - set(policies))
        if unknown:
            raise ConfigError(f"{_SPEC}: there is no policy {unknown[0]!r}; allowed: {', '.join(sorted(policies))}")
        _check_unset("MultiRLModuleSpec", spec, _UNSET_OF_ALL)
        return [one for own in (spec.rl_module_specs or {}).values() for one in _specs(own, policies)]
    if not isinstance(spec, RLModuleSpec):
        raise ConfigError(f"{_SPEC}: must be an RLModuleSpec or a MultiRLModuleSpec, not {spec!r}")
    # Not inference_only: RLlib sets it itself.
    _check_unset("RLModuleSpec", spec, _UNSET_OF_ONE)
    return [spec]


def _check_unset(kind: str, spec: object, names: tuple[str, ...]) -> None:
    for name in names:
        if getattr(spec, name):
            raise ConfigError(
                f"{_SPEC} with {kind}({name}=…): spaces are text, weights come from llm(model=…) and every policy is"
                " sampled with; allowed: module_class and model_config"
            )


def _check_overrides(config: AlgorithmConfig, check: Callable[[Any], object]) -> None:
    overrides: Mapping[str, Any] = config.algorithm_config_overrides_per_module
    for module_id, given in overrides.items():
        name = f"rl_module(algorithm_config_overrides_per_module={{{module_id!r}: …}})"
        if module_id not in config.policies:
            raise ConfigError(f"{name}: there is no such policy; allowed: {', '.join(sorted(config.policies))}")
        for key in given:
            if key not in OF_A_MODULE:
                raise ConfigError(f"{name}: {key} is the same for all policies; allowed: {', '.join(OF_A_MODULE)}")
        try:
            check(config.copy(copy_frozen=False).update_from_dict(given))
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None
