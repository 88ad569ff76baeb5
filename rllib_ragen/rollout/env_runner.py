"""The EnvRunner: environments, chat format and engine of one process; specs in, RLlib episodes out."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray
import torch
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.utils import force_list
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.framework import get_device
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME, WEIGHTS_SEQ_NO
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from ragen_envs.several import SeveralTextEnvs
from ragen_envs.text import TextEnv
from rllib_ragen.faults.heartbeat import resident_gib
from rllib_ragen.faults.private_names.of_rllib import seed_of_runner
from rllib_ragen.models.llm_module import lm_weights
from rllib_ragen.models.weight_arrays import WeightState, from_array
from rllib_ragen.models.weight_channel import Rendezvous, TensorSpec
from rllib_ragen.rollout.callbacks import EpisodeCallbacks, TextRecord, call_back
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.connectors import TurnConnectors
from rllib_ragen.rollout.conversation import reply_sampling
from rllib_ragen.rollout.engines.base import Engine, EngineDead, EngineFailure
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.game_episodes import Episode
from rllib_ragen.rollout.rllib_metrics import log_episodes
from rllib_ragen.rollout.shares import shared_out
from rllib_ragen.rollout.specs import EpisodeSpec, mixed_specs, training_specs
from rllib_ragen.rollout.turn_pipelines import TurnPipelines
from rllib_ragen.types import Sampled, Sampling

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Played:
    """The result of one remote `play` call."""

    episodes: list[Episode]
    """Episodes in the order of the specs."""
    metrics: Any
    error: str = ""
    """Reason why nothing was played. Raising instead would end the actor (and its engine) and hide the reason."""
    gib: float = 0.0
    """Resident memory of the actor afterwards, in GiB."""


class LLMEnvRunner(EnvRunner, Checkpointable):
    """Plays text environments with an engine; runs in the driver or as N remote actors.

    In the driver next to a local learner it samples with the learner's own module (`attach`): no copy, no transfer.
    """

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._env_creator = kwargs["env_creator"]
        self._callbacks = [make() for make in force_list(self.config.callbacks_class)]
        self._is_actor = bool(self.worker_index)
        torch.set_num_threads(self.config.threads_of(actor=self._is_actor))
        self.chat = self.config.chat_format()
        self._own = self.config.own_ways_to_reply()
        self.module: Any = None
        self.engines: dict[str, Engine] = {}
        """Engines by module id; empty until there are modules."""
        self._fetched: dict[str, ray.ObjectRef] = {}
        """Object-store references, by module id, that the engines' weights came from."""
        self._meeting: Rendezvous | None = None
        self._base: MultiRLModule | None = None
        self._next_plain_group = 0
        self.uncounted = MetricsLogger(stats_cls_lookup=self.config.stats_cls_lookup, root=False)
        """Metrics of episodes that do not count in training: an evaluation's."""
        self._logger: MetricsLogger = self.metrics
        """The one of the episodes that are being played."""
        self.make_env()
        self._pipelines = TurnPipelines.of(self.config, self.get_spaces())
        self.connectors: dict[str, TurnConnectors] = {}
        """What prompts and replies go through, by module id; empty: the config has no connectors."""
        if not self.config.shares_module:
            self.make_module()

    # --- building ---------------------------------------------------------------------------------------------------

    def make_env(self) -> None:
        """Makes the pool that episodes borrow environments from, and one environment to see that it can be made.

        Raises:
            TypeError: the configured environment is no TextEnv.
        """
        context = EnvContext(
            self.config.resolved_env_config(), worker_index=self.worker_index or 0, num_workers=self.num_workers
        )
        probe = self._env_creator(context)
        self._look_at(probe)
        self._callback("on_environment_created", env=probe, env_context=context)
        probe.close()
        self.pool: EnvPool[Any] = EnvPool(lambda: self._adapted(self._env_creator(context)), threaded=True)

    def _adapted(self, env: Any) -> Any:
        """Returns the environment in the form that episodes are played with."""
        return env

    def _look_at(self, env: Any) -> None:
        """Learns from an environment what it asks of a policy. Raises TypeError if it is no TextEnv."""
        if isinstance(env, SeveralTextEnvs):
            env.make_all()
        elif not isinstance(env, TextEnv):
            raise TypeError(f"StarPO plays TextEnv environments, {self.config.env!r} makes a {type(env).__name__}")
        self._spaces = (env.observation_space, env.action_space)
        self._max_turns = env.max_turns if isinstance(env, SeveralTextEnvs) else env.limits.max_turns

    def make_module(self) -> None:
        """Starts this runner's own engines, one per policy."""
        config = self.config
        if config.engine_choice().name == "vllm":
            module_ids = config.module_ids()
            for module_id in module_ids:
                self.engines[module_id] = self._vllm_engine(sharers=len(module_ids))
            return
        spec = config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        device = get_device(config, config.num_gpus_per_env_runner if self._is_actor else 0)
        module = spec.build()
        for module_id in module.keys():  # noqa: SIM118 - a MultiRLModule is no mapping
            module[module_id].to(device)
        self.attach(module)

    def _vllm_engine(self, sharers: int) -> Engine:
        from rllib_ragen.rollout.engines.vllm import VLLMEngine

        config = self.config
        gpus, cache = config.workers_per_engine, config.kv_cache_gib
        return VLLMEngine(
            config.model_folder,
            max_context=config.max_context_tokens,
            max_rows=config.max_concurrent,
            dtype=config.dtype,
            seed=seed_of_runner(self),
            tensor_parallel_size=gpus,
            distributed_executor_backend="mp" if gpus > 1 else "uni",
            kv_cache_bytes=None if cache is None else int(cache * 2**30),
            gpu_memory_utilization=config.gpu_memory_utilization,
            enforce_eager=config.enforce_eager,
            separate_process=config.separate_process or sharers > 1,
            can_sleep=config.sleep,
            sharers=sharers,
        )

    def attach(self, module: MultiRLModule) -> None:
        """Samples with the modules of `module` from now on; call `weights_changed` when they are updated elsewhere."""
        module_ids = sorted(module.keys())
        # As in RLlib: a runner with one policy shows the module itself.
        self.module = module[module_ids[0]] if len(module_ids) == 1 else module
        for module_id in module_ids:
            self.engines[module_id] = HFEngine(
                module[module_id].llm, max_context=self.config.max_context_tokens, max_rows=self.config.max_concurrent
            )

    @property
    def engine(self) -> Engine:
        """The engine of the only policy. Raises ValueError if there are none or several."""
        (engine,) = self.engines.values()
        return engine

    # --- sampling ---------------------------------------------------------------------------------------------------

    def sample(
        self,
        *,
        specs: Sequence[EpisodeSpec] | None = None,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        greedy: bool | None = None,
        explore: bool | None = None,
        count: bool = True,
        temperature: float | None = None,
        **kwargs: Any,
    ) -> list[Episode]:
        """Plays complete episodes.

        Args:
            specs: one episode each; without them `num_episodes` (or one per `num_timesteps` / max turns, default one)
                fresh training instances are played.
            num_timesteps: turns wanted, roughly.
            num_episodes: episodes wanted.
            greedy: the likeliest token always; default: not `explore`.
            explore: RLlib's name for the opposite; default: the config's.
            count: whether the episodes enter the metrics and counters of training; else `uncounted`.
            temperature: of sampling where it is not greedy; default: the config's.

        Raises:
            EngineDead: the engine is gone.
            CallbackError: a callback raised.
        """
        assert self.engines, "attach() a module first"
        if specs is None:
            specs = self._plain_specs(num_episodes or max(1, (num_timesteps or 0) // self._max_turns))
        if greedy is None:
            greedy = not (self.config.explore if explore is None else explore)
        # A fresh start makes the result independent of what was sampled before, to the last bit.
        for engine in self.engines.values():
            engine.wake()
            engine.reset()
        self._logger = self.metrics if count else self.uncounted
        self.connectors = self._connect(explore=not greedy)
        sampling = reply_sampling(self.config, self.chat, greedy=greedy, temperature=temperature)
        episodes = self._collect(specs, sampling)
        if self.config.sleep:
            for engine in self.engines.values():
                engine.sleep()
        turns = log_episodes(self._logger, episodes, self.config.metrics_num_episodes_for_smoothing)
        if count:
            self.num_env_steps_sampled_lifetime += turns
        self._callback("on_sample_end", samples=episodes)
        return episodes

    def play(
        self,
        specs: Sequence[EpisodeSpec],
        greedy: bool = False,
        count: bool = True,
        temperature: float | None = None,
    ) -> Played:
        """Returns `sample` for remote callers: a programming error comes back as text, a dead engine ends the actor."""
        try:
            episodes = self.sample(specs=specs, greedy=greedy, count=count, temperature=temperature)
        except EngineDead:
            raise
        except Exception as error:
            logger.exception("sampling failed")
            return Played([], None, f"{type(error).__name__}: {error}")
        return Played(episodes, self.take_metrics(count), gib=resident_gib())

    def reply(self, prompt_ids: Sequence[int], module_id: str, sampling: Sampling) -> Sampled | EngineFailure:
        """Samples one reply of a policy, outside of any episode. To be called between two `sample`s.

        Raises:
            EngineDead: the engine is gone.
        """
        engine = self.engines[module_id]
        engine.wake()
        engine.reset()
        engine.add(0, prompt_ids, sampling)
        ((_, answer),) = engine.poll()
        engine.forget(0)
        if self.config.sleep:
            engine.sleep()
        return answer

    def _connect(self, *, explore: bool) -> dict[str, TurnConnectors]:
        """Returns what a batch's prompts and replies go through."""
        if self._pipelines is None:
            return {}
        return self._pipelines.for_each(
            self.engines,
            num_ids=len(self.chat.tokenizer),
            rl_module=self.module,
            explore=explore,
            metrics=self._logger,
        )

    def _collect(self, specs: Sequence[EpisodeSpec], sampling: Sampling) -> list[Episode]:
        """Returns one episode per spec."""
        callbacks: EpisodeCallbacks[TextEnv] = EpisodeCallbacks(self._episode_callback, TextRecord)
        own = {label: (chat, replace(sampling, max_tokens=tokens)) for label, (chat, tokens) in self._own.items()}
        collect(
            specs,
            engine=self.engine,
            chat=self.chat,
            make_env=self.pool,
            sampling=sampling,
            max_context_tokens=self.config.max_context_tokens,
            max_concurrent=self.config.max_concurrent,
            env_timeout_s=self.config.env_timeout_s,
            connectors=next(iter(self.connectors.values()), None),
            watcher=callbacks,
            own=own,
        )
        return callbacks.episodes

    def _plain_specs(self, count: int) -> list[EpisodeSpec]:
        first = self._next_plain_group
        self._next_plain_group += count
        mixed = self.config.mixed_worlds()
        if not mixed:
            return training_specs(seed_of_runner(self), first, count, 1)
        turns = shared_out([world.weight for world in mixed], first, count)
        labels = [world.label for world in mixed]
        return mixed_specs(seed_of_runner(self), turns, 1, labels, lambda turn: mixed[turn.env].target_level)

    def _episode_callback(self, name: str, **given: object) -> None:
        self._callback(name, rl_module=self.module, **given)

    def _callback(self, name: str, **given: object) -> None:
        call_back(name, self._callbacks, self.config, {"env_runner": self, "metrics_logger": self._logger, **given})

    # --- weights and state ------------------------------------------------------------------------------------------

    def weights_changed(self, version: int) -> None:
        """Records that the attached modules have been updated in place."""
        for engine in self.engines.values():
            assert isinstance(engine, HFEngine)
            engine.weights_changed(version)

    def fetch_weights(self, refs: Mapping[str, ray.ObjectRef], version: int) -> None:
        """Sets the new policy version, and loads the weights that have changed: frozen policies' stay."""
        new = {module_id: ref for module_id, ref in refs.items() if self._fetched.get(module_id) != ref}
        self.load_weights(dict(zip(new, ray.get(list(new.values())), strict=True)), version)
        self._fetched |= new
        for engine in self.engines.values():
            engine.version = version

    def load_weights(self, modules: Mapping[str, WeightState], version: int) -> None:
        """Replaces engines' weights by their modules' state and takes the new policy version.

        Raises:
            ValueError: a missing or unknown weight, or a wrong shape; that engine has not been changed then.
        """
        for module_id, state in modules.items():
            if self.config.weight_transfer == "adapters":
                named = self._merged(module_id, state)
            else:
                named = {name: from_array(array) for name, array in state.items()}
            self._fetched.pop(module_id, None)
            self.engines[module_id].load_weights(lm_weights(named), version)

    def _merged(self, module_id: str, adapters: WeightState) -> dict[str, torch.Tensor]:
        """Returns a plain model's weights. The base model stays here, beside the engine, so that adapters alone
        travel.
        """
        if self._base is None:
            spec = self.config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=False)
            self._base = spec.build()
        module = self._base[module_id]
        module.set_state(adapters)
        tensors: dict[str, torch.Tensor] = module.tensors(inference_only=True)
        return tensors

    def receive_weights(self, meeting: Rendezvous, first_rank: int, specs: Sequence[TensorSpec], version: int) -> None:
        """Loads the weights that the first learner sends through the channel of `meeting`, where the engine's workers
        are.

        Raises:
            EngineDead: the channel broke, and the engine with it.
        """
        from rllib_ragen.rollout.engines.vllm import VLLMEngine

        assert isinstance(self.engine, VLLMEngine)
        if meeting != self._meeting:
            self.engine.join_channel(meeting, first_rank, ray.util.get_node_ip_address())
            self._meeting = meeting
        self.engine.receive_weights(specs, version)

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        """Returns only counters: weights belong to the learner."""
        return {NUM_ENV_STEPS_SAMPLED_LIFETIME: self.num_env_steps_sampled_lifetime}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores counters and, unless it samples with the learner's own module, weights."""
        if NUM_ENV_STEPS_SAMPLED_LIFETIME in state:
            self.num_env_steps_sampled_lifetime = state[NUM_ENV_STEPS_SAMPLED_LIFETIME]
        if COMPONENT_RL_MODULE in state and not self.config.shares_module:
            modules, version = state[COMPONENT_RL_MODULE], state.get(WEIGHTS_SEQ_NO, 0)
            if isinstance(modules, ray.ObjectRef):
                modules = ray.get(modules)
            if all(isinstance(own, ray.ObjectRef) for own in modules.values()):
                self.fetch_weights(modules, version)
            else:
                self.load_weights(modules, version)

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[()], dict[str, Any]]:
        """Returns the constructor arguments of a copy of this runner."""
        return (), {"config": self.config, "env_creator": self._env_creator}

    def get_checkpointable_components(self) -> list[Any]:
        """Returns no components: weights are saved once, by the learner."""
        return []

    # --- what RLlib asks --------------------------------------------------------------------------------------------

    def get_spaces(self) -> dict[str, Any]:
        """Returns the spaces: text in, text out."""
        return dict.fromkeys((INPUT_ENV_SPACES, INPUT_ENV_SINGLE_SPACES, *self.config.module_ids()), self._spaces)

    def get_metrics(self) -> Any:
        """Returns the reduced metrics since the last call."""
        return self.metrics.reduce()

    def take_metrics(self, count: bool) -> Any:
        """Returns the same of the episodes that count in training, or of the others."""
        return self.get_metrics() if count else self.uncounted.reduce()

    def assert_healthy(self) -> None:
        """Raises AssertionError if there is nothing to sample with."""
        assert self.engines or self.config.shares_module, "the runner has no engine"

    def stop(self) -> None:
        """Closes environments and engine."""
        self.pool.close()
        for engine in self.engines.values():
            engine.close()
