"""StarPOConfig: RLlib's fluent configuration of a StarPO run."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

from pydantic import ValidationError
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from ragen_envs.games.registry import make_game
from ragen_envs.spaces import AnyText
from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import algorithm_preset, flatten
from rllib_ragen.config.messages import sentence
from rllib_ragen.config.paths import enter_model
from rllib_ragen.config.policy_plan import PolicyPlan
from rllib_ragen.config.schema import CreditSection, DiagnosticsSection, LearnerSection, RunConfig
from rllib_ragen.config.task_names import game_name, is_task_name, name_of_id
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.faults.private_names.of_ray import is_registered_env
from rllib_ragen.faults.private_names.of_rllib import attribute_of_key, keep_runner_states
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.folder import check_model_folder, model_folder
from rllib_ragen.models.lora_settings import LoraSettings, lora_settings
from rllib_ragen.models.tiny.run_model import ensure_run_model, run_model_folder
from rllib_ragen.rollout.engines.choose import EngineChoice, choose_engine
from rllib_ragen.starpo.attributes import ATTRIBUTES, SECTIONS
from rllib_ragen.starpo.checks.combinations import check_config
from rllib_ragen.starpo.checks.games import check_groups_are_drawn_one_by_one
from rllib_ragen.starpo.checks.lora import check_lora
from rllib_ragen.starpo.checks.model import check_model_and_chat
from rllib_ragen.starpo.checks.policies import check_policies
from rllib_ragen.starpo.checks.rllib_parts import check_rllib_parts
from rllib_ragen.starpo.checks.rllib_settings import check_rllib_settings
from rllib_ragen.starpo.env_registry import register_task, register_text_envs
from rllib_ragen.starpo.matchmaking.games import policies_of
from rllib_ragen.starpo.setters import FluentSetters
from rllib_ragen.starpo.users_names import Registered, registered_for, take_registered
from rllib_ragen.starpo.weight_broadcast import Broadcast

_TUNE_KEYS = {"__trial_info__", "__stdout_file__", "__stderr_file__", "multiagent", "class", "_enable_new_api_stack"}
_OLD_STACK_KEYS = {"model", "optimizer", "replay_buffer_config"}
_REGISTERED = "registered_in_python"
"""Key of `users_names` in what is sent."""
_ALGORITHM = "rllib_ragen.starpo.algorithm:StarPO"
"""Name of the class, as environments have names: the algorithm imports its config, and not the other way."""
_CHANNEL_TIMEOUT_S = 120.0
"""Longest wait for a member of the channel for weights."""


register_text_envs()


class StarPOConfig(FluentSetters):
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

    def __init__(self, algo_class: object = None) -> None:
        from rllib_ragen.rollout.env_runner import LLMEnvRunner

        super().__init__(algo_class=algo_class or resolve_name(_ALGORITHM))
        defaults = RunConfig()
        for attribute, (section, key) in ATTRIBUTES.items():
            setattr(self, attribute, getattr(getattr(defaults, section), key))
        self.seed = defaults.seed
        self.environment(defaults.env.name)
        self.observation_space = self.action_space = AnyText()
        self.env_runner_cls = LLMEnvRunner
        # Text goes to engines as it is; the default connectors want dict spaces of several agents.
        self.add_default_connectors_to_env_to_module_pipeline = False
        self.add_default_connectors_to_module_to_env_pipeline = False
        self.add_default_connectors_to_learner_pipeline = False
        # RLlib's defaults are made for vectors and timesteps; these are what text and whole episodes need.
        self.batch_mode = "complete_episodes"
        self.episodes_to_numpy = False
        self.create_local_env_runner = False
        self.grad_clip_by = "global_norm"
        self.evaluation_duration = defaults.eval.num_instances
        # Weights are published by StarPO itself, blocking (weights.py); there is no other state to merge.
        keep_runner_states(self)
        # The default sleeps a minute inside the failing actor.
        self.delay_between_env_runner_restarts_s = 1.0
        self.max_num_env_runner_restarts = 1000

    # --- fluent setters ---------------------------------------------------------------------------------------------

    def environment(
        self, env: object = NotProvided, *, env_config: object = NotProvided, **kwargs: object
    ) -> StarPOConfig:
        """Returns the task.

        Args:
            env: name (`sokoban`, `ragen/Sokoban-v0`, the game `tic_tac_toe`), a user's own (`register_text_env`, an
                entry point, `my_pkg.worlds:MyWorld`), or one that RLlib's `register_env` was given; that must make
                TextEnvs, or with several agents TextGameEnvs or RLlib's MultiAgentEnvs of text.
            env_config: {"task": settings of the task, "limits": fields of TextLimits}.
            kwargs: as in AlgorithmConfig.environment.

        Raises:
            ValueError: an unknown name.
        """
        if isinstance(env, str) and not is_registered_env(env):
            env = register_task(env)
        super().environment(env, env_config=env_config, **kwargs)
        return self

    def env_runners(self, **rllib: object) -> StarPOConfig:
        """Returns the same as AlgorithmConfig's.

        Raises:
            ConfigError: `enable_connectors`, which RLlib takes and ignores.
        """
        if "enable_connectors" in rllib:
            raise ConfigError(
                "env_runners(enable_connectors=…) means nothing to StarPO: connectors are used where they are given;"
                " allowed: env_runners(env_to_module_connector=…, module_to_env_connector=…)"
            )
        super().env_runners(**rllib)
        return self

    def algorithm(self, name: str) -> StarPOConfig:
        """Sets estimator, filter and loss by one word (docs/algorithms.md): starpo_s, ppo, grpo, dapo …

        Setters that come later win.

        Raises:
            ConfigError: unknown algorithm.
        """
        said = flatten(algorithm_preset(name))
        keys = {attribute: f"{section}.{key}" for attribute, (section, key) in ATTRIBUTES.items()}
        return self._set(**{attribute: said[key] for attribute, key in keys.items() if key in said})

    def update_from_dict(self, config_dict: Mapping[str, Any] | AlgorithmConfig) -> StarPOConfig:
        """Returns the same as AlgorithmConfig's, but unknown keys are refused.

        Raises:
            ValueError: an unknown key, with the nearest known one.
        """
        given: Tree = config_dict.to_dict() if isinstance(config_dict, AlgorithmConfig) else dict(config_dict)
        for key in given:
            name = attribute_of_key(self, key)
            if not hasattr(self, name) and name not in _TUNE_KEYS and name != _REGISTERED:
                near = difflib.get_close_matches(key, list(vars(self)), n=1)
                raise ConfigError(f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        take_registered(cast(Registered, given.pop(_REGISTERED, {})))
        for key in _OLD_STACK_KEYS & given.keys():
            # RLlib would merge these with what is there, or hand training() one that it does not have.
            setattr(self, key, given.pop(key))
        if "env" in given:
            self.environment(given.pop("env"))
        super().update_from_dict(given)
        return self

    def build_algo(self, env: object = None, **kwargs: object) -> Any:
        """Returns the algorithm; `env` as in `environment`, and the rest as in AlgorithmConfig.build_algo."""
        if env is not None:
            self.environment(env)
        return super().build_algo(**kwargs)

    # --- what users registered, on its way to other processes -----------------------------------------------------

    def to_dict(self) -> Tree:
        """Adds to AlgorithmConfig's, for Tune's trials, what its names mean that were registered in Python."""
        found: Tree = super().to_dict()
        found.pop(_REGISTERED, None)
        return {**found, _REGISTERED: sent} if (sent := self._registered()) else found

    def get_state(self) -> Tree:
        """Returns the same as AlgorithmConfig's, which `build_algo` copies a config by, with settings that are −1.

        RLlib leaves them out, because −1 is its mark of deprecated ones, and the copy has their defaults.
        """
        own = {name: value for name, value in vars(self).items() if name not in ("algo_class", "_is_frozen")}
        return {**own, **super().get_state()}

    def __getstate__(self) -> Tree:
        return {**vars(self), _REGISTERED: self._registered()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        own = dict(state)
        take_registered(own.pop(_REGISTERED))
        self.__dict__.update(own)

    def _registered(self) -> Registered:
        return registered_for(
            environment=self._text_env_name(), estimator=self.estimator, filter=self.filter, loss=self.loss
        )

    # --- RunConfig and back -----------------------------------------------------------------------------------------

    @classmethod
    def from_run_config(cls, run: RunConfig) -> StarPOConfig:
        """Returns the same run for RLlib. `eval` and the run's length stay with whoever drives it."""
        config = cls()
        env = run.env.model_dump()
        name, task = env.pop("name"), env.pop("task")
        del env["reply_prefix"]
        if is_task_name(name) and (name_of_id(name) or not is_registered_env(name)):
            config.environment(name, env_config={"task": task, "limits": env})
        else:
            config.environment(name, env_config=task)
        config._set(**{name: getattr(getattr(run, section), key) for name, (section, key) in ATTRIBUTES.items()})
        if run.learner.lr_schedule != "constant":
            config._set(decay_iterations=run.learner.decay_iterations or run.iterations)
        config.seed = run.seed
        return config

    def to_run_config(self) -> RunConfig:
        """Returns the same run as the one schema of YAML and command line.

        Of somebody else's registered environment, `env.name` is the registered name and `env.task` all of env_config.

        Raises:
            ConfigError: a value out of range, or an unknown key of `env_config`.
        """
        tree: Tree = {section: {} for section in SECTIONS} | {"env": self._env_tree()}
        for attribute, (section, key) in ATTRIBUTES.items():
            tree[section][key] = getattr(self, attribute)
        try:
            return RunConfig.model_validate({**tree, "seed": self.seed})
        except ValidationError as error:
            raise ConfigError(sentence(error)) from None

    def credit_section(self) -> CreditSection:
        """Returns the settings of filters and estimators."""
        return self.to_run_config().credit

    def learner_section(self) -> LearnerSection:
        """Returns the settings of the update."""
        return self.to_run_config().learner

    def diagnostics_section(self) -> DiagnosticsSection:
        """Says how often, and how closely, it is measured what reasoning depends on."""
        return self.to_run_config().diagnostics

    def lora(self) -> LoraSettings | None:
        """Returns the adapters that are trained instead of all weights; None: none."""
        return lora_settings(self.learner_section())

    # --- derived ----------------------------------------------------------------------------------------------------

    @property
    def model_folder(self) -> Path:
        """Where the model is; the small model of a game need not be there before `prepare_model`."""
        return run_model_folder(self.to_run_config())

    def prepare_model(self) -> None:
        """Makes the small model of a game, if the run needs it and it is not there: minutes, once a machine."""
        ensure_run_model(self.to_run_config())

    def policy_plan(self) -> PolicyPlan:
        """Says who plays, for whoever seats the policies."""
        run = self.to_run_config()
        return PolicyPlan(
            seed=self.seed,
            group_size=self.group_size,
            module_ids=tuple(self.module_ids()),
            trained=tuple(self.trained_ids()),
            mapping_fn=self.policy_mapping_fn,
            several_agents=self.has_several_agents,
            env=self._text_env_name(),
            game=self.game(),
            task=run.env.task,
            section=run.multi_agent,
        )

    def game(self) -> str | None:
        """Returns the game for several seats that is played; None for other tasks, and for somebody else's
        environments.
        """
        name = self._text_env_name()
        return None if name is None else game_name(name)

    def module_ids(self) -> list[str]:
        """Returns all policies, sorted."""
        return sorted(map(str, self.policies))

    def trained_ids(self) -> list[str]:
        """Returns those that learn, sorted."""
        chosen = self.policies_to_train
        if chosen is None:
            return self.module_ids()
        return [name for name in self.module_ids() if (chosen(name, None) if callable(chosen) else name in chosen)]

    @property
    def has_several_agents(self) -> bool:
        """Whether environments are multi-agent ones."""
        return self.game() is not None or bool(self.is_multi_agent)

    @property
    def shares_module(self) -> bool:
        """Whether the sampler uses the learner's own module: both in one process, and of one type."""
        return bool(self.num_env_runners == 0 and self.num_learners == 0 and self.dtype == "float32")

    @property
    def workers_per_engine(self) -> int:
        """Processes that one vLLM engine's model is spread over (tensor parallel)."""
        return max(1, int(self.num_gpus_per_env_runner))

    def threads_of(self, *, actor: bool) -> int:
        """Returns torch threads of a process: what was asked for, else 1 in an actor and one per core in the driver."""
        return int(self.torch_threads or (1 if actor else len(os.sched_getaffinity(0))))

    def chat_format(self) -> ChatFormat:
        """Says how the model is talked to.

        Raises:
            ValueError: the folder has no usable tokenizer or chat template.
        """
        return ChatFormat.from_folder(
            self.model_folder, reply_prefix=self.reply_prefix, template_kwargs=self.template_kwargs
        )

    def engine_choice(self) -> EngineChoice:
        """Says which engine generates, and why.

        Raises:
            ValueError: the engine that is asked for cannot be used.
        """
        return choose_engine(
            self.engine,
            num_policies=len(self.policies),
            num_env_runners=self.num_env_runners,
            # The small model of a game may have to be made yet; it is served as the embedded one is.
            model_path=self.model_folder if self.model_folder.is_dir() else model_folder(enter_model(self.model_path)),
            on_gpu=self.num_gpus_per_env_runner > 0,
        )

    def resolved_env_config(self) -> Tree:
        """Returns `env_config` as environments get it, with prompt_style `auto` decided."""
        if self._text_env_name() is None:
            return dict(self.env_config)
        run = self.to_run_config()
        limits = run.text_limits() if self.game() is None else run.game_limits()
        return {"task": run.env.task, "limits": asdict(limits)}

    def validate(self) -> None:
        """Refuses what makes no sense, before anything heavy is started.

        Raises:
            ValueError: one sentence that names the key.
        """
        self._seat_policies()
        if self.in_evaluation:
            # RLlib's copy for evaluation runners, of which there are none.
            super().validate()
            return
        check_rllib_settings(self, StarPOConfig())
        check_rllib_parts(self, self.has_several_agents, StarPOConfig.to_run_config)
        super().validate()
        run = self.to_run_config()
        check_config(run, shipped_env=self._text_env_name() is not None)
        if self.has_several_agents:
            check_groups_are_drawn_one_by_one(run)
        if self.lr_schedule != "constant" and self.decay_iterations is None:
            raise ConfigError(f"learner.decay_iterations: must be an integer ≥ 1 with lr_schedule={self.lr_schedule}")
        in_game = self.game() is not None
        folder = check_model_folder(run.model.path, self.max_context_tokens, in_game=in_game)
        check_lora(run.learner, folder)
        check_model_and_chat(
            folder,
            run.model,
            max_context_tokens=self.max_context_tokens,
            reply_prefix=self.reply_prefix,
            think=None if self._text_env_name() is None else run.env.think,
        )
        self.engine_choice()
        if self.weight_transfer == "broadcast" and len(self.policies) > 1:
            raise ConfigError(
                f"vllm.weight_transfer=broadcast with {len(self.policies)} policies: a channel carries the weights of"
                " one; allowed: object_store, adapters"
            )
        check_policies(self.policy_plan())

    def _seat_policies(self) -> None:
        """Says what `play_mode` means in RLlib's terms; a user's own `.multi_agent(…)` goes before it."""
        from rllib_ragen.rollout.env_runner import LLMEnvRunner
        from rllib_ragen.rollout.game_env_runner import MultiAgentLLMEnvRunner

        game = self.game()
        if game is not None and not self.is_multi_agent:
            run = self.to_run_config()
            policies, trained, mapping = policies_of(run.multi_agent, make_game(game, **run.env.task).seats)
            self.multi_agent(policies=set(policies), policies_to_train=trained, policy_mapping_fn=mapping)
        if self.has_several_agents and self.env_runner_cls is LLMEnvRunner:
            self.env_runner_cls = MultiAgentLLMEnvRunner

    def make_broadcast(self) -> Broadcast | None:
        """Returns the way of new weights to the engines; None: through the object store."""
        if self.weight_transfer != "broadcast":
            return None
        gpus = self.num_gpus_per_learner > 0 and self.num_gpus_per_env_runner > 0
        return Broadcast("nccl" if gpus else "gloo", self.workers_per_engine, _CHANNEL_TIMEOUT_S)

    # --- what RLlib builds ------------------------------------------------------------------------------------------

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Returns the policy; what it is made of is `default_model_config`."""
        from rllib_ragen.models.llm_module import LLMRLModule

        return RLModuleSpec(module_class=LLMRLModule)

    def default_model_config(self) -> Tree:
        """Returns ModuleSettings, with a value head where the estimator needs one."""
        from rllib_ragen.models.llm_module import ModuleSettings

        settings = ModuleSettings(
            path=str(self.model_folder),
            dtype=self.dtype,
            temperature=self.temperature,
            value_head=make_estimator(self.credit_section()).needs_values,
            seed=self.seed or 0,
            grouped_attention=self.num_gpus_per_learner == 0,
            lora=self.lora(),
        )
        return dict(settings)

    def get_default_learner_class(self) -> Any:
        """Returns the StarPO learner."""
        from rllib_ragen.learner.learner import StarPOLearner

        return StarPOLearner

    def build_learner_group(
        self,
        *,
        env: object = None,
        spaces: object = None,
        rl_module_spec: object = None,
        placement_group: object = None,
    ) -> Any:
        """Returns the same as AlgorithmConfig's; the group knows of weights that are shared out."""
        from rllib_ragen.learner.learner_group import StarPOLearnerGroup

        spec = rl_module_spec or self.get_multi_rl_module_spec(env=env, spaces=spaces)
        # Learner connectors run in the driver: a learner would make them, too, and never call them.
        config = self.copy(copy_frozen=False).learners(learner_connector=None)
        return StarPOLearnerGroup(config=config, module_spec=spec, placement_group=placement_group)

    def _env_tree(self) -> Tree:
        name, given = self._text_env_name(), dict(self.env_config)
        if name is None:
            return {"name": str(self.env), "task": given}
        task, limits = given.pop("task", {}), given.pop("limits", {})
        if given:
            raise ConfigError(f"env_config: unknown key {min(given)!r}; allowed: task, limits")
        return {"name": name, "task": dict(task), **limits}

    def _text_env_name(self) -> str | None:
        """Returns short name of one of this project's environments or games, or None for a registered one of somebody
        else.
        """
        return name_of_id(self.env) if isinstance(self.env, str) else None
