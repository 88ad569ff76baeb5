"""StarPOConfig: RLlib's fluent configuration of a StarPO run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from pydantic import ValidationError
from ray.rllib.algorithms.algorithm_config import NotProvided
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils import force_list

from ragen_envs.games.registry import make_game
from ragen_envs.spaces import AnyText
from ragen_envs.tree import Tree
from rllib_ragen.config.environments import World, is_mixed, worlds
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import algorithm_preset, flatten
from rllib_ragen.config.messages import sentence
from rllib_ragen.config.paths import PROMPT_KEYS, enter_model, enter_text
from rllib_ragen.config.policy_plan import PolicyPlan
from rllib_ragen.config.schema import CreditSection, DiagnosticsSection, LearnerSection, RunConfig
from rllib_ragen.config.task_names import game_name, is_task_name, name_of_id, task_name
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.faults.private_names.of_ray import is_registered_env
from rllib_ragen.faults.private_names.of_rllib import keep_runner_states
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.folder import check_model_folder, model_folder
from rllib_ragen.models.lora_settings import LoraSettings, lora_settings
from rllib_ragen.models.tiny.run_model import ensure_run_model, run_model_folder
from rllib_ragen.rollout.engines.choose import EngineChoice, choose_engine
from rllib_ragen.starpo.alarm_callback import AlarmCallback
from rllib_ragen.starpo.attributes import ATTRIBUTES, SECTIONS, value_in
from rllib_ragen.starpo.checks.combinations import check_config
from rllib_ragen.starpo.checks.games import check_groups_are_drawn_one_by_one
from rllib_ragen.starpo.checks.lora import check_lora
from rllib_ragen.starpo.checks.model import check_chats
from rllib_ragen.starpo.checks.policies import check_policies
from rllib_ragen.starpo.checks.prompts import refuse_prompts
from rllib_ragen.starpo.checks.rllib_parts import check_rllib_parts
from rllib_ragen.starpo.checks.rllib_settings import check_rllib_settings
from rllib_ragen.starpo.env_config import made_of, of_one, tree_of_one, tree_of_several
from rllib_ragen.starpo.env_registry import SEVERAL, register_task, register_text_envs
from rllib_ragen.starpo.matchmaking.games import policies_of
from rllib_ragen.starpo.portable_config import PortableConfig
from rllib_ragen.starpo.weight_broadcast import Broadcast

_ALGORITHM = "rllib_ragen.starpo.algorithm:StarPO"
"""Import path of the algorithm's class, which imports this config, and not the other way."""
_CHANNEL_TIMEOUT_S = 120.0
"""Longest wait in seconds for a member of the weight channel: chosen freely."""


register_text_envs()


class StarPOConfig(PortableConfig):
    """The configuration of StarPO.

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
        for attribute in ATTRIBUTES:
            setattr(self, attribute, value_in(defaults, attribute))
        self.seed = defaults.seed
        self.environment(defaults.env.name)
        self.observation_space = self.action_space = AnyText()
        self.env_runner_cls = LLMEnvRunner
        # Text goes to engines as it is; the default connectors want dict spaces of several agents.
        self.add_default_connectors_to_env_to_module_pipeline = False
        self.add_default_connectors_to_module_to_env_pipeline = False
        self.add_default_connectors_to_learner_pipeline = False
        self.callbacks_class = AlarmCallback
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
        """Sets the task.

        Args:
            env: name (`sokoban`, `ragen/Sokoban-v0`, the game `tic_tac_toe`), a user's own (`register_text_env`, an
                entry point, `my_pkg.worlds:MyWorld`), or one that RLlib's `register_env` was given; that must make
                TextEnvs, or with several agents TextGameEnvs or RLlib's MultiAgentEnvs of text.
            env_config: {"task": settings of the task, "limits": fields of TextLimits, "curriculum": as `env.curriculum`
                of the config}.
            kwargs: as in AlgorithmConfig.environment.

        Raises:
            ValueError: an unknown name.
        """
        if isinstance(env, str) and not is_registered_env(env):
            # The id of a user's own, as it arrives in another process, is known there by its name.
            env = register_task(name_of_id(env) or env)
        if isinstance(env_config, Mapping) and isinstance(limits := env_config.get("limits"), Mapping):
            # A file is read where it is named; actors and trials are elsewhere.
            texts = {key: enter_text(text) for key in PROMPT_KEYS if isinstance(text := limits.get(key), str)}
            env_config = {**env_config, "limits": {**limits, **texts}}
        if env is not NotProvided and self.env == SEVERAL:
            self.env_config.clear()
        super().environment(env, env_config=env_config, **kwargs)
        return self

    def environments(self, *entries: Mapping[str, Any]) -> StarPOConfig:
        """Sets several tasks for one run, each with its share of the groups (docs/environments.md).

        Args:
            entries: of each what an entry of `envs` says in YAML: `{"name": "sokoban", "weight": 2, "task": {…}}`.

        Raises:
            ValueError: no entry, or an unknown name.
        """
        if not entries:
            raise ValueError("environments(): name at least one, as in environments({'name': 'sokoban'})")
        for entry in entries:
            task_name(str(entry.get("name", RunConfig().env.name)))
        self.env_config: Tree = {}  # RLlib would keep what an earlier environment was given.
        super().environment(SEVERAL, env_config={"envs": [dict(entry) for entry in entries]})
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

    def callbacks(self, callbacks_class: Any = NotProvided, **kwargs: Any) -> StarPOConfig:
        """Sets callbacks, as AlgorithmConfig.callbacks does. The alarms stay, before the user's own classes.

        Args:
            callbacks_class: a class derived from RLlibCallback, or a list of such; None: the alarms alone.
            kwargs: functions: on_episode_end …
        """
        if callbacks_class is not NotProvided:
            own = [one for one in force_list(callbacks_class) if one is not AlarmCallback]
            callbacks_class = [AlarmCallback, *own] if own else AlarmCallback
        super().callbacks(callbacks_class, **kwargs)
        return self

    @property
    def is_offline(self) -> bool:
        """False: RLlib would read `input_` with Ray Data; StarPO reads it itself (`starpo.offline`)."""
        return False

    def algorithm(self, name: str) -> StarPOConfig:
        """Sets estimator, filter and loss by one word (docs/algorithms.md): starpo_s, ppo, grpo, dapo …

        Setters that come later win.

        Raises:
            ConfigError: unknown algorithm.
        """
        said = flatten(algorithm_preset(name))
        keys = {attribute: f"{section}.{key}" for attribute, (section, key) in ATTRIBUTES.items()}
        return self._set(**{attribute: said[key] for attribute, key in keys.items() if key in said})

    def build_algo(self, env: object = None, **kwargs: object) -> Any:
        """Returns the algorithm; `env` as in `environment`, and the rest as in AlgorithmConfig.build_algo."""
        if env is not None:
            self.environment(env)
        return super().build_algo(**kwargs)

    # --- RunConfig and back -----------------------------------------------------------------------------------------

    @classmethod
    def from_run_config(cls, run: RunConfig) -> StarPOConfig:
        """Converts a run config for RLlib. `eval` and the run's length belong to the run's loop."""
        config = cls()
        name, (task, env_config) = run.env.name, of_one(run.env)
        if run.envs:
            config.environments(*(entry.model_dump() for entry in run.envs))
        elif is_task_name(name) and (name_of_id(name) or not is_registered_env(name)):
            config.environment(name, env_config=env_config)
        else:
            refuse_prompts(run)
            config.environment(name, env_config=task)
        config._set(**{attribute: value_in(run, attribute) for attribute in ATTRIBUTES})
        if run.learner.lr_schedule != "constant":
            config._set(decay_iterations=run.learner.decay_iterations or run.iterations)
        config.seed = run.seed
        return config

    def to_run_config(self) -> RunConfig:
        """Converts to the run config, the schema of YAML and command line.

        For a foreign environment, `env.name` is the registered name and `env.task` all of env_config.

        Raises:
            ConfigError: a value out of range, or an unknown key of `env_config`.
        """
        tree: Tree = {section: {} for section in SECTIONS} | {"eval": {}} | self._env_tree()
        for attribute, (section, key) in ATTRIBUTES.items():
            if not section:
                tree[key] = getattr(self, attribute)
            elif section in tree:
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
        """Returns the settings of the diagnostics."""
        return self.to_run_config().diagnostics

    def lora(self) -> LoraSettings | None:
        """Returns the adapters that are trained instead of all weights; None: none."""
        return lora_settings(self.learner_section())

    # --- derived ----------------------------------------------------------------------------------------------------

    @property
    def model_folder(self) -> Path:
        """Folder of the model; the small model of a game need not exist before `prepare_model`."""
        return run_model_folder(self.to_run_config())

    def prepare_model(self) -> None:
        """Makes the small model of a game, if the run needs it and it does not exist: minutes, once per machine."""
        ensure_run_model(self.to_run_config())

    def policy_plan(self) -> PolicyPlan:
        """Returns the policies and their seats."""
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
            worlds=self.worlds(),
            section=run.multi_agent,
        )

    def worlds(self) -> tuple[World, ...]:
        """Returns the environments for one agent, each with its levels; none where somebody else's is played, or a
        game.
        """
        return () if self.has_several_agents or self._is_somebody_elses() else worlds(self.to_run_config())

    def mixed_worlds(self) -> tuple[World, ...]:
        """Returns the same where episodes differ in environment or level; else none."""
        found = self.worlds()
        return found if is_mixed(found) else ()

    def own_ways_to_reply(self) -> dict[str, tuple[ChatFormat, int]]:
        """Says by the label of each of several environments how the model is talked to there, and how long a reply may
        be.
        """
        chats: dict[str, ChatFormat] = {}
        found = {}
        for world in self.worlds():
            prefix, tokens = world.target.env.reply_prefix, world.target.rollout.max_reply_tokens
            if world.label:
                chats[prefix] = chats.get(prefix) or self._chat_format(prefix)
                found[world.label] = (chats[prefix], tokens)
        return found

    def game(self) -> str | None:
        """Returns the name of the game; None for tasks with one agent, and for foreign environments."""
        name = self._text_env_name()
        return None if name is None else game_name(name)

    def module_ids(self) -> list[str]:
        """Returns the ids of all policies, sorted."""
        return sorted(map(str, self.policies))

    def trained_ids(self) -> list[str]:
        """Returns the ids of the trained policies, sorted."""
        chosen = self.policies_to_train
        if chosen is None:
            return self.module_ids()
        return [name for name in self.module_ids() if (chosen(name, None) if callable(chosen) else name in chosen)]

    @property
    def has_several_agents(self) -> bool:
        """Whether the environments are multi-agent."""
        return self.game() is not None or bool(self.is_multi_agent)

    @property
    def shares_module(self) -> bool:
        """Whether the sampler uses the learner's own module: both in one process, with one dtype."""
        return bool(self.num_env_runners == 0 and self.num_learners == 0 and self.dtype == "float32")

    @property
    def workers_per_engine(self) -> int:
        """Number of processes of one vLLM engine's model (tensor parallel)."""
        return max(1, int(self.num_gpus_per_env_runner))

    def threads_of(self, *, actor: bool) -> int:
        """Returns the torch threads of a process: as set, else 1 in an actor and one per core in the driver."""
        return int(self.torch_threads or (1 if actor else len(os.sched_getaffinity(0))))

    def chat_format(self) -> ChatFormat:
        """Returns the chat format of the model.

        Raises:
            ValueError: the folder has no usable tokenizer or chat template.
        """
        return self._chat_format(self.reply_prefix)

    def _chat_format(self, reply_prefix: str) -> ChatFormat:
        return ChatFormat.from_folder(
            self.model_folder, reply_prefix=reply_prefix, template_kwargs=self.template_kwargs
        )

    def engine_choice(self) -> EngineChoice:
        """Chooses the engine, with the reason.

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
        if self._is_somebody_elses():
            return dict(self.env_config)
        if mixed := self.mixed_worlds():
            return {"worlds": made_of(mixed)}
        run = self.to_run_config()
        limits = run.text_limits() if self.game() is None else run.game_limits()
        return {"task": run.env.task, "limits": asdict(limits)}

    def validate(self) -> None:
        """Checks the settings, before anything heavy is started.

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
        if run.envs and self.is_multi_agent:
            raise ConfigError("multi_agent(policies=…) with several environments: each is for one agent; leave it out")
        check_config(run, shipped_env=not self._is_somebody_elses())
        if self.has_several_agents:
            check_groups_are_drawn_one_by_one(run)
        if self.lr_schedule != "constant" and self.decay_iterations is None:
            raise ConfigError(f"learner.decay_iterations: must be an integer ≥ 1 with lr_schedule={self.lr_schedule}")
        in_game = self.game() is not None
        folder = check_model_folder(run.model.path, self.max_context_tokens, in_game=in_game)
        check_lora(run.learner, folder)
        check_chats(folder, run, knows_form=not self._is_somebody_elses())
        self.engine_choice()
        if self.weight_transfer == "broadcast" and len(self.policies) > 1:
            raise ConfigError(
                f"vllm.weight_transfer=broadcast with {len(self.policies)} policies: a channel carries the weights of"
                " one; allowed: object_store, adapters"
            )
        check_policies(self.policy_plan())

    def _seat_policies(self) -> None:
        """Sets RLlib's policies and mapping from `play_mode`; a user's own `.multi_agent(…)` has precedence."""
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
        """Makes the channel of weights to the engines; None: they use the object store."""
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
        """Returns the class StarPOLearner."""
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
        """Builds the learner group, one that supports sharded weights."""
        from rllib_ragen.learner.learner_group import StarPOLearnerGroup

        spec = rl_module_spec or self.get_multi_rl_module_spec(env=env, spaces=spaces)
        # Learner connectors run in the driver: a learner would make them, too, and never call them.
        config = self.copy(copy_frozen=False).learners(learner_connector=None)
        return StarPOLearnerGroup(config=config, module_spec=spec, placement_group=placement_group)

    def _env_tree(self) -> Tree:
        if self.env == SEVERAL:
            return tree_of_several(self.env_config, self.reply_prefix)
        name = self._text_env_name()
        if name is None:
            return {"env": {"name": str(self.env), "task": dict(self.env_config)}}
        return tree_of_one(name, self.env_config)

    def _is_somebody_elses(self) -> bool:
        return self.env != SEVERAL and self._text_env_name() is None

    def _text_env_name(self) -> str | None:
        """Returns the short name of this project's environment or game; None for a foreign environment."""
        return name_of_id(self.env) if isinstance(self.env, str) else None
