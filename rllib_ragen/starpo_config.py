"""StarPOConfig: RLlib's fluent configuration of a StarPO run."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from envs.registry import check_env_name, env_names, gym_id
from envs.spaces import AnyText
from rllib_ragen.config import CreditSection, EnvSection, LearnerSection, RunConfig, Section
from rllib_ragen.config_checks import ConfigError, check_config
from rllib_ragen.config_errors import sentence
from rllib_ragen.config_load import algorithm_preset, flatten
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.lora_checks import check_lora
from rllib_ragen.models.folder import check_model_folder, model_folder
from rllib_ragen.models.lora_settings import lora_settings
from rllib_ragen.registered_envs import is_registered, register_text_envs
from rllib_ragen.rollout.engines.choose import EngineChoice, choose_engine

_RENAMED = {("model", "path"): "model_path", ("rollout", "timeout_s"): "sample_timeout_s"}
_SECTIONS: dict[str, type[Section]] = {
    name: field.annotation
    for name, field in RunConfig.model_fields.items()
    if name in ("model", "rollout", "vllm", "credit", "learner") and isinstance(field.annotation, type)
}
ATTRIBUTES: dict[str, tuple[str, str]] = {
    _RENAMED.get((section, key), key): (section, key) for section, cls in _SECTIONS.items() for key in cls.model_fields
}
"""Flat attribute of a StarPOConfig → (section, key) of the RunConfig that means the same."""
_TUNE_KEYS = {"__trial_info__", "__stdout_file__", "__stderr_file__", "multiagent", "class", "_enable_new_api_stack"}
_OLD_STACK_KEYS = {"model", "optimizer", "replay_buffer_config"}
_MAX_TEXT = 1_000_000


register_text_envs()


class StarPOConfig(AlgorithmConfig):
    """Configures StarPO.

    .. code-block:: python

        algo = (
            StarPOConfig()
            .environment("ragen/Sokoban-v0", env_config={"limits": {"max_turns": 5}})
            .env_runners(num_env_runners=2)
            .learners(num_learners=0)
            .llm(model="tiny")
            .training(estimator="rloo", lr=1e-4, clip_high=0.28)
            .build_algo()
        )

    Settings are plain attributes with the names, defaults and ranges of RunConfig's keys (`ATTRIBUTES`), so a run
    means the same from YAML, the command line, Python and a Tune search space.
    """

    def __init__(self, algo_class: Any = None) -> None:
        from rllib_ragen.rollout.env_runner import LLMEnvRunner
        from rllib_ragen.starpo import StarPO

        super().__init__(algo_class=algo_class or StarPO)
        defaults = RunConfig()
        for attribute, (section, key) in ATTRIBUTES.items():
            setattr(self, attribute, getattr(getattr(defaults, section), key))
        self.seed = defaults.seed
        self.environment(gym_id(defaults.env.name))
        self.observation_space = self.action_space = AnyText(_MAX_TEXT)
        self.env_runner_cls = LLMEnvRunner
        # RLlib's defaults are made for vectors and timesteps; these are what text and whole episodes need.
        self.batch_mode = "complete_episodes"
        self.episodes_to_numpy = False
        self.create_local_env_runner = False
        self.grad_clip_by = "global_norm"
        self.evaluation_duration = defaults.eval.num_instances
        # Weights are published by StarPO itself, blocking (weights.py); there is no other state to merge.
        self._dont_auto_sync_env_runner_states = True
        # The default sleeps a minute inside the failing actor.
        self.delay_between_env_runner_restarts_s = 1.0
        self.max_num_env_runner_restarts = 1000

    # --- fluent setters ---------------------------------------------------------------------------------------------

    def environment(self, env: Any = NotProvided, *, env_config: Any = NotProvided, **kwargs: Any) -> StarPOConfig:
        """The task.

        Args:
            env: name (`sokoban`, `ragen/Sokoban-v0`) or one that `register_env` was given; must make TextEnvs.
            env_config: {"task": settings of the task, "limits": fields of TextLimits}.
            kwargs: as in AlgorithmConfig.environment.

        Raises:
            ValueError: an unknown name.
        """
        if isinstance(env, str) and not is_registered(env):
            env = gym_id(check_env_name(env))
        super().environment(env, env_config=env_config, **kwargs)
        return self

    def llm(self, *, model: str = NotProvided, dtype: str = NotProvided) -> StarPOConfig:
        """The policy.

        Args:
            model: `tiny` (embedded) or a folder with a transformers model and its tokenizer.
            dtype: float32 or bfloat16, of the sampler's weights and of activations; learners keep float32 weights.
        """
        return self._set(model_path=model, dtype=dtype)

    def rollout(
        self,
        *,
        engine: str = NotProvided,
        max_reply_tokens: int = NotProvided,
        max_context_tokens: int = NotProvided,
        max_concurrent: int = NotProvided,
        temperature: float = NotProvided,
        top_p: float = NotProvided,
        top_k: int = NotProvided,
        overlap: str = NotProvided,
        env_timeout_s: float = NotProvided,
    ) -> StarPOConfig:
        """How trajectories are sampled; who samples is `env_runners(num_env_runners=…)`.

        Args:
            engine: hf, vllm (needs env runners), or auto.
            max_reply_tokens: tokens a reply may take.
            max_context_tokens: tokens a trajectory may take.
            max_concurrent: episodes in flight per runner.
            temperature: sampling temperature in training, > 0.
            top_p: must be 1 in training.
            top_k: must be 0 (whole vocabulary) in training.
            overlap: off, or one_step_off (needs env runners): sample the next batch while this one is learnt from.
            env_timeout_s: a step that takes longer ends its episode as env_error.
        """
        return self._set(
            engine=engine,
            max_reply_tokens=max_reply_tokens,
            max_context_tokens=max_context_tokens,
            max_concurrent=max_concurrent,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            overlap=overlap,
            env_timeout_s=env_timeout_s,
        )

    def vllm(
        self,
        *,
        kv_cache_gib: float | None = NotProvided,
        gpu_memory_utilization: float = NotProvided,
        enforce_eager: bool | None = NotProvided,
        separate_process: bool = NotProvided,
        sleep: bool = NotProvided,
    ) -> StarPOConfig:
        """How vLLM uses its device. GPUs of one engine are `env_runners(num_gpus_per_env_runner=…)`.

        Args:
            kv_cache_gib: KV cache; None: on a CPU what max_concurrent needs (at most 2), on a GPU what is left.
            gpu_memory_utilization: share of a GPU for weights and KV cache.
            enforce_eager: no graphs; None: True on a CPU, False on a GPU.
            separate_process: engine core in a process beside the env runner's.
            sleep: give the GPU's memory back while the learner works on it.
        """
        return self._set(
            kv_cache_gib=kv_cache_gib,
            gpu_memory_utilization=gpu_memory_utilization,
            enforce_eager=enforce_eager,
            separate_process=separate_process,
            sleep=sleep,
        )

    def training(
        self,
        *,
        num_groups: int = NotProvided,
        group_size: int = NotProvided,
        estimator: str = NotProvided,
        normalize: str = NotProvided,
        lr: float = NotProvided,
        critic_lr: float = NotProvided,
        betas: tuple[float, float] = NotProvided,
        adam_eps: float = NotProvided,
        weight_decay: float = NotProvided,
        grad_clip: float = NotProvided,
        num_minibatches: int = NotProvided,
        num_epochs: int = NotProvided,
        microbatch_tokens: int = NotProvided,
        clip_low: float = NotProvided,
        clip_high: float = NotProvided,
        clip_dual: float | None = NotProvided,
        aggregation: str = NotProvided,
        entropy_coeff: float = NotProvided,
        value_coeff: float = NotProvided,
        value_clip: float = NotProvided,
        torch_threads: int | None = NotProvided,
    ) -> StarPOConfig:
        """Batch, credit and update. Unknown arguments are TypeErrors; RLlib's timestep-oriented ones do not exist.

        Args:
            num_groups: task instances per iteration.
            group_size: trajectories per instance.
            estimator: advantage estimator.
            normalize: none, or batch (divide advantages by their std over trained tokens).
            lr: actor learning rate.
            critic_lr: value-head learning rate.
            betas: Adam's betas.
            adam_eps: Adam's epsilon.
            weight_decay: AdamW weight decay.
            grad_clip: global gradient norm.
            num_minibatches: optimiser steps per epoch, counted in trajectories.
            num_epochs: passes over a batch.
            microbatch_tokens: padded tokens of one forward pass; changes speed and memory, never the result.
            clip_low: lower clip of the ratio.
            clip_high: upper clip of the ratio.
            clip_dual: dual clip for negative advantages; None: off.
            aggregation: token-mean, seq-mean-token-mean, seq-mean-token-sum or seq-mean-token-sum-norm.
            entropy_coeff: entropy bonus.
            value_coeff: weight of the value loss (gae).
            value_clip: clip range of the value loss.
            torch_threads: threads of torch in each process; None: 1 in actors, one per core in the driver.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        return self._set(**given)

    def algorithm(self, name: str) -> StarPOConfig:
        """Sets estimator, filter and loss by one word (docs/algorithms.md): starpo_s, ppo, grpo, dapo …

        Setters that come later win.

        Raises:
            ConfigError: unknown algorithm.
        """
        said = flatten(algorithm_preset(name))
        keys = {attribute: f"{section}.{key}" for attribute, (section, key) in ATTRIBUTES.items()}
        return self._set(**{attribute: said[key] for attribute, key in keys.items() if key in said})

    def credit(
        self,
        *,
        gamma: float = NotProvided,
        lam: float = NotProvided,
        turn_gamma: float = NotProvided,
        turn_weight: float = NotProvided,
        turn_rewards: bool = NotProvided,
        reward_norm: str = NotProvided,
        reward_grouping: str = NotProvided,
        filter: str = NotProvided,
        filter_value: float = NotProvided,
        filter_metric: str = NotProvided,
        filter_direction: str = NotProvided,
        filter_zero_spread: bool = NotProvided,
        group_weighting: str = NotProvided,
        loss_scaling: str = NotProvided,
        dynamic_sampling_rounds: int = NotProvided,
        max_empty_updates: int = NotProvided,
    ) -> StarPOConfig:
        """Raw rewards → filtered groups → advantages per token: more than `training` says.

        Args:
            gamma: discount per token (gae, bi_level_gae, reinforce++).
            lam: GAE lambda (gae, bi_level_gae).
            turn_gamma: discount per turn (bi_level_gae, gigpo, turn_grpo).
            turn_weight: turn's advantage beside its episode's (gigpo, turn_grpo).
            turn_rewards: each turn's reward on its own last token (gae, bi_level_gae, reinforce++).
            reward_norm: none, mean, mean_std or asym_clip: how returns are normalised before the estimator.
            reward_grouping: group or batch: whose statistics reward_norm uses.
            filter: none, top_p, top_p_softmax, top_k, top_k_abs or min_p.
            filter_value: v of the filter.
            filter_metric: score of a group: reward_std, reward_variance, reward, reward_sum, entropy, entropy_variance
                or length.
            filter_direction: largest or smallest scores first.
            filter_zero_spread: filters may keep groups whose returns are all equal.
            group_weighting: none, or spread (policy loss times the group's reward std).
            loss_scaling: none, linear or sqrt in the kept share of the groups.
            dynamic_sampling_rounds: rounds that replace groups without reward spread by further ones; 0: off.
            max_empty_updates: stop after so many filtered-out batches in a row.
        """
        return self._set(**{name: value for name, value in locals().items() if name not in ("self", "__class__")})

    def learning(
        self,
        *,
        loss: str = NotProvided,
        norm_tokens: int | None = NotProvided,
        tis_cap: float | None = NotProvided,
        kl_coeff: float = NotProvided,
        kl_estimator: str = NotProvided,
        lr_schedule: str = NotProvided,
        warmup_iterations: int = NotProvided,
        decay_iterations: int | None = NotProvided,
        max_skipped_steps: int = NotProvided,
        gradient_checkpointing: bool = NotProvided,
        lora_rank: int | None = NotProvided,
        lora_alpha: float | None = NotProvided,
        lora_targets: list[str] | None = NotProvided,
    ) -> StarPOConfig:
        """More of the update than `training` says.

        Args:
            loss: token (PPO's ratio of each token) or sequence (GSPO's of the whole trajectory; wants clips near 3e-4).
            norm_tokens: divisor of seq-mean-token-sum-norm; None: max_context_tokens.
            tis_cap: cap of truncated importance sampling's weights; None: off.
            kl_coeff: pull towards the model that the run started from; 0: that model is not loaded a second time.
            kl_estimator: k1, k2 or k3.
            lr_schedule: constant, linear or cosine.
            warmup_iterations: updates over which the learning rates rise.
            decay_iterations: update at which a linear or cosine schedule is at 0.
            max_skipped_steps: stop after so many non-finite gradients in a row.
            gradient_checkpointing: compute layers again in the backward pass; changes speed and memory only.
            lora_rank: train adapters of this rank instead of all weights; None: off. Needs the library peft.
            lora_alpha: adapters count lora_alpha/lora_rank times; None: twice.
            lora_targets: names of the linear layers that get adapters; None: all but the head.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        return self._set(**given)

    def update_from_dict(self, config_dict: Mapping[str, Any]) -> StarPOConfig:
        """As AlgorithmConfig's, but unknown keys are refused.

        Raises:
            ValueError: an unknown key, with the nearest known one.
        """
        for key in config_dict:
            name = self._translate_special_keys(key, warn_deprecated=False)
            if not hasattr(self, name) and name not in _TUNE_KEYS:
                near = difflib.get_close_matches(key, list(vars(self)), n=1)
                raise ConfigError(f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        rest = dict(config_dict)
        for key in _OLD_STACK_KEYS & rest.keys():
            # RLlib would hand these to training(), which does not have them.
            setattr(self, key, rest.pop(key))
        super().update_from_dict(rest)
        return self

    # --- RunConfig and back -----------------------------------------------------------------------------------------

    @classmethod
    def from_run_config(cls, run: RunConfig) -> StarPOConfig:
        """The same run for RLlib. `eval` and the run's length stay with whoever drives it."""
        config = cls()
        env = run.env.model_dump()
        name, task = env.pop("name"), env.pop("task")
        if name in env_names() or name in map(gym_id, env_names()):
            config.environment(name, env_config={"task": task, "limits": env})
        else:
            config.environment(name, env_config=task)
        config._set(**{name: getattr(getattr(run, section), key) for name, (section, key) in ATTRIBUTES.items()})
        if run.learner.lr_schedule != "constant":
            config._set(decay_iterations=run.learner.decay_iterations or run.iterations)
        config.seed = run.seed
        return config

    def to_run_config(self) -> RunConfig:
        """The same run as the one schema of YAML and command line.

        Of somebody else's registered environment, `env.name` is the registered name and `env.task` all of env_config.

        Raises:
            ConfigError: a value out of range, or an unknown key of `env_config`.
        """
        tree: dict[str, Any] = {section: {} for section in _SECTIONS}
        for attribute, (section, key) in ATTRIBUTES.items():
            tree[section][key] = getattr(self, attribute)
        tree["env"] = self._env_tree()
        try:
            return RunConfig.model_validate({**tree, "seed": self.seed})
        except ValidationError as error:
            raise ConfigError(sentence(error)) from None

    def credit_section(self) -> CreditSection:
        """The settings of filters and estimators."""
        return self.to_run_config().credit

    def learner_section(self) -> LearnerSection:
        """The settings of the update."""
        return self.to_run_config().learner

    # --- derived ----------------------------------------------------------------------------------------------------

    @property
    def model_folder(self) -> Path:
        """Where the model is."""
        return model_folder(self.model_path)

    @property
    def shares_module(self) -> bool:
        """Whether the sampler uses the learner's own module: both in one process, and of one type."""
        return bool(self.num_env_runners == 0 and self.num_learners == 0 and self.dtype == "float32")

    def threads_of(self, *, actor: bool) -> int:
        """Torch threads of a process: what was asked for, else 1 in an actor and one per core in the driver."""
        return int(self.torch_threads or (1 if actor else len(os.sched_getaffinity(0))))

    def engine_choice(self) -> EngineChoice:
        """Which engine generates, and why.

        Raises:
            ValueError: the engine that is asked for cannot be used.
        """
        return choose_engine(
            self.engine,
            num_env_runners=self.num_env_runners,
            model_path=self.model_folder,
            on_gpu=self.num_gpus_per_env_runner > 0,
        )

    def resolved_env_config(self) -> dict[str, Any]:
        """`env_config` as environments get it, with prompt_style `auto` decided."""
        if self._text_env_name() is None:
            return dict(self.env_config)
        run = self.to_run_config()
        return {"task": run.env.task, "limits": asdict(run.text_limits())}

    def validate(self) -> None:
        """Refuses what makes no sense, before anything heavy is started.

        Raises:
            ValueError: one sentence that names the key.
        """
        super().validate()
        if self.in_evaluation:
            # RLlib's copy for evaluation runners, of which there are none.
            return
        run = self.to_run_config()
        if self._text_env_name() is None:
            # A user's own environment: its config is its own business.
            run = run.model_copy(update={"env": EnvSection()})
        check_config(run)
        if self.lr_schedule != "constant" and self.decay_iterations is None:
            raise ConfigError(f"learner.decay_iterations: must be an integer ≥ 1 with lr_schedule={self.lr_schedule}")
        check_lora(run.learner, check_model_folder(self.model_path, self.max_context_tokens))
        self.engine_choice()
        if self.is_multi_agent:
            raise ConfigError("multi_agent: StarPO has one policy so far")

    # --- what RLlib builds ------------------------------------------------------------------------------------------

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """The policy, with a value head where the estimator needs one."""
        from rllib_ragen.models.llm_module import LLMRLModule, ModuleSettings

        settings = ModuleSettings(
            path=str(self.model_folder),
            dtype=self.dtype,
            temperature=self.temperature,
            value_head=make_estimator(self.credit_section()).needs_values,
            grouped_attention=self.num_gpus_per_learner == 0,
            lora=lora_settings(self.learner_section()),
        )
        return RLModuleSpec(module_class=LLMRLModule, model_config=dict(settings))

    def get_default_learner_class(self) -> Any:
        """The StarPO learner."""
        from rllib_ragen.learner.learner import StarPOLearner

        return StarPOLearner

    def build_learner_connector(self, input_observation_space: Any, input_action_space: Any, device: Any = None) -> Any:
        """An empty pipeline: rows arrive finished."""
        from ray.rllib.connectors.learner import LearnerConnectorPipeline

        return LearnerConnectorPipeline(
            input_observation_space=input_observation_space, input_action_space=input_action_space, connectors=[]
        )

    def _set(self, **given: Any) -> StarPOConfig:
        for name, value in given.items():
            if value is not NotProvided:
                setattr(self, name, value)
        return self

    def _env_tree(self) -> dict[str, Any]:
        name, given = self._text_env_name(), dict(self.env_config)
        if name is None:
            return {"name": str(self.env), "task": given}
        task, limits = given.pop("task", {}), given.pop("limits", {})
        if given:
            raise ConfigError(f"env_config: unknown key {min(given)!r}; allowed: task, limits")
        return {"name": name, "task": dict(task), **limits}

    def _text_env_name(self) -> str | None:
        """Short name of one of this project's environments, or None for a registered one of somebody else."""
        own = {gym_id(name): name for name in env_names()}
        return own.get(self.env) if isinstance(self.env, str) else None
