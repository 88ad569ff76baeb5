"""RLlib's settings that mean nothing here: refused by name, with what to say instead.

`REFUSED` and the tests' list of those that are honoured are together every argument of every setter of RLlib's
AlgorithmConfig (tests/starpo/test_rllib_settings.py): one that a Ray upgrade adds is in neither, and fails there.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.faults.private_names.of_rllib_config import BATCH_PER_LEARNER, IS_ATARI

_OLD_STACK = "it is of RLlib's old API stack, which StarPO does not run on"
_TEXT = "observations and actions are text"
_EVALUATION = "evaluations are played by the training runners, between two iterations, and wait for all episodes"
_OFFLINE_EVALUATION = "there is no evaluation on recorded data; evaluate_split plays episodes"
_OFFLINE = "nothing is read or written in RLlib's formats; a run samples what it learns from"
_TIMESTEPS = "a batch is counted in trajectories: training(num_groups=…) × training(group_size=…)"
_ITERATION = "one iteration is one update; run for longer, or set training(num_groups=…)"
_COMPILE = "the learner's passes are of lengths that differ, and are not compiled"
_TF = "models are torch's"
_STATES = "connectors keep their state in their own runner"
_STATE_SERVER = "new weights reach the runners before they sample again"
_EPISODES = "episodes are sampled and learnt from whole"
_PROBE = "how long a runner may be silent is fault_tolerance(hang_timeout_s=…)"
_LOST = "lost runners are always replaced and what they were playing is played again"
_AGGREGATOR = "rows go to the learners as they are; microbatches are training(microbatch_tokens=…)"
_NO_VECTORS = "episodes in flight are rollout(max_concurrent=…), each with an environment of its own"
_ENVIRONMENT = "what a worker's processes find in their environment is Ray's runtime_env"
_ALL_POLICIES = "all policies stay loaded: multi_agent(policies=…)"
_CHECKPOINT = "a checkpoint has the policies as transformers folders, and all that a run needs to go on"

_BY_SETTER: Mapping[str, Mapping[str, str]] = {
    "python_environment": {
        "extra_python_environs_for_driver": _ENVIRONMENT,
        "extra_python_environs_for_worker": _ENVIRONMENT,
    },
    "resources": {
        "num_gpus": "GPUs are learners(num_gpus_per_learner=…) and env_runners(num_gpus_per_env_runner=…)",
        "_fake_gpus": _OLD_STACK,
    },
    "framework": {
        "framework_str": _TF,
        **dict.fromkeys(("eager_tracing", "eager_max_retraces", "tf_session_args", "local_tf_session_args"), _TF),
        **dict.fromkeys(
            (
                *("torch_compile_learner", "torch_compile_learner_what_to_compile"),
                *("torch_compile_learner_dynamo_mode", "torch_compile_learner_dynamo_backend"),
                *("torch_compile_worker", "torch_compile_worker_dynamo_backend", "torch_compile_worker_dynamo_mode"),
            ),
            _COMPILE,
        ),
        "torch_ddp_kwargs": "several learners add up their gradients themselves: training(sharding=…)",
        "torch_skip_nan_gradients": "a step whose gradients are not finite is always skipped, and too many in a row end"
        " the run: training(max_skipped_steps=…)",
    },
    "api_stack": {
        "enable_rl_module_and_learner": _OLD_STACK.replace("it", "the other", 1),
        "enable_env_runner_and_connector_v2": _OLD_STACK.replace("it", "the other", 1),
    },
    "environment": {
        "observation_space": _TEXT,
        "action_space": _TEXT,
        "render_env": "trajectories.jsonl and the report show what was played",
        "clip_rewards": "rewards are scaled by credit(reward_norm=…), or by a learner connector",
        **dict.fromkeys(("normalize_actions", "clip_actions", "action_mask_key", IS_ATARI), _TEXT),
        "disable_env_checking": "environments are looked at once when a runner starts; certify checks them in full",
    },
    "env_runners": {
        "create_local_env_runner": "beside env runners the driver samples nothing: env_runners(num_env_runners=0)",
        "create_env_on_local_worker": "beside env runners the driver samples nothing: env_runners(num_env_runners=0)",
        **dict.fromkeys(("num_envs_per_env_runner", "gym_env_vectorize_mode", "remote_worker_envs"), _NO_VECTORS),
        "remote_env_batch_wait_ms": "an environment's time limit is rollout(env_timeout_s=…)",
        "validate_env_runners_after_construction": "runners get their weights at once, and are waited for",
        "max_requests_in_flight_per_env_runner": "a runner is asked once a batch; sampling beside learning is"
        " rollout(overlap='one_step_off')",
        "add_default_connectors_to_env_to_module_pipeline": f"RLlib's own pieces make tensors, and {_TEXT}",
        "add_default_connectors_to_module_to_env_pipeline": f"RLlib's own pieces make tensors, and {_TEXT}",
        "episode_lookback_horizon": _EPISODES,
        "merge_env_runner_states": _STATES,
        "broadcast_env_runner_states": _STATES,
        "use_env_runner_state_server": _STATE_SERVER,
        "env_runner_state_server_max_concurrency": _STATE_SERVER,
        "compress_observations": _OLD_STACK,
        "rollout_fragment_length": _TIMESTEPS,
        "batch_mode": _EPISODES,
        "explore": "training samples at rollout(temperature=…); evaluation plays greedily and at that temperature",
        "episodes_to_numpy": "turns are of lengths that differ, and stay lists",
        **dict.fromkeys(
            (
                *("use_worker_filter_stats", "update_worker_filter_stats", "sample_collector", "preprocessor_pref"),
                *("observation_filter", "enable_tf1_exec_eagerly", "sampler_perf_stats_ema_coef"),
            ),
            _OLD_STACK,
        ),
        "exploration_config": "replies are sampled at rollout(temperature=…)",
    },
    "learners": {
        "num_aggregator_actors_per_learner": _AGGREGATOR,
        "max_requests_in_flight_per_aggregator_actor": _AGGREGATOR,
        "max_requests_in_flight_per_learner": "learners are asked once an iteration, and waited for",
        "add_default_connectors_to_learner_pipeline": "rows are made by credit(…); the place of your pieces is before"
        " or after AssignCredit (docs/python.md)",
    },
    "training": {
        "grad_clip_by": "the norm that is clipped is that of all gradients: training(grad_clip=…)",
        "train_batch_size": _TIMESTEPS,
        BATCH_PER_LEARNER: _TIMESTEPS,
        "minibatch_size": "a batch is cut into training(num_minibatches=…) minibatches",
        "shuffle_batch_per_epoch": "the rows of a batch are always shuffled",
        "model": "the model is a transformers folder: llm(model=…)",
        "optimizer": "AdamW's settings are training(lr=…, betas=…, adam_eps=…, weight_decay=…)",
    },
    "callbacks": {
        **dict.fromkeys(
            (
                "callbacks_on_evaluate_offline_start",
                "callbacks_on_evaluate_offline_end",
                "callbacks_on_offline_eval_runners_recreated",
            ),
            _OFFLINE_EVALUATION,
        ),
    },
    "evaluation": {
        "evaluation_duration_unit": "an evaluation is counted in episodes: evaluation(evaluation_duration=…), the run"
        " config's eval.num_instances",
        **dict.fromkeys(
            (
                "evaluation_auto_duration_min_env_steps_per_sample",
                "evaluation_auto_duration_max_env_steps_per_sample",
            ),
            "an evaluation plays evaluation(evaluation_duration=…) instances",
        ),
        "evaluation_sample_timeout_s": "rollout.timeout_s is for evaluations too: env_runners(sample_timeout_s=…)",
        **dict.fromkeys(
            (
                *("evaluation_parallel_to_training", "evaluation_unhealthy_workers_timeout_s"),
                *("evaluation_error_after_n_consecutive_skips", "evaluation_force_reset_envs_before_iteration"),
            ),
            _EVALUATION,
        ),
        "evaluation_num_env_runners": f"{_EVALUATION}: env_runners(num_env_runners=…)",
        "custom_evaluation_function": "call algo.evaluate_split(split, num_instances, greedy), or override"
        " StarPO.evaluate",
        "off_policy_estimation_methods": _OFFLINE_EVALUATION,
        "ope_split_batch_by_episode": _OFFLINE_EVALUATION,
        **dict.fromkeys(
            (
                *("offline_evaluation_interval", "num_offline_eval_runners", "offline_evaluation_type"),
                *("offline_eval_runner_class", "offline_loss_for_module_fn", "offline_eval_batch_size_per_runner"),
                *("dataset_num_iters_per_eval_runner", "offline_eval_rl_module_inference_only"),
                *("num_cpus_per_offline_eval_runner", "num_gpus_per_offline_eval_runner"),
                *("custom_resources_per_offline_eval_runner", "offline_evaluation_timeout_s"),
                *("max_requests_in_flight_per_offline_eval_runner", "broadcast_offline_eval_runner_states"),
                *("validate_offline_eval_runners_after_construction", "restart_failed_offline_eval_runners"),
                *("ignore_offline_eval_runner_failures", "max_num_offline_eval_runner_restarts"),
                *("offline_eval_runner_health_probe_timeout_s", "offline_eval_runner_restore_timeout_s"),
            ),
            _OFFLINE_EVALUATION,
        ),
    },
    "offline_data": dict.fromkeys(
        (
            *("offline_data_class", "input_read_method", "input_read_method_kwargs", "input_read_schema"),
            *("input_read_episodes", "input_read_sample_batches", "input_read_batch_size", "input_filesystem"),
            *("input_filesystem_kwargs", "input_compress_columns", "materialize_data", "materialize_mapped_data"),
            *("map_batches_kwargs", "iter_batches_kwargs", "ignore_final_observation", "prelearner_class"),
            *("prelearner_buffer_class", "prelearner_buffer_kwargs", "prelearner_module_synch_period"),
            *("prelearner_use_recorded_module_states", "dataset_num_iters_per_learner", "input_config"),
            *("actions_in_input_normalized", "postprocess_inputs", "shuffle_buffer_size", "output_config"),
            *("output_compress_columns", "output_max_file_size", "output_max_rows_per_file"),
            *("output_write_remaining_data", "output_write_method", "output_write_method_kwargs"),
            *("output_filesystem", "output_filesystem_kwargs", "output_write_episodes", "offline_sampling"),
        ),
        _OFFLINE,
    ),
    "multi_agent": {
        "policy_map_capacity": _ALL_POLICIES,
        "policy_states_are_swappable": _ALL_POLICIES,
        "observation_fn": "what an agent reads is rewritten by env_runners(env_to_module_connector=…)",
        "count_steps_by": _TIMESTEPS,
    },
    "reporting": {
        "keep_per_episode_custom_metrics": _OLD_STACK,
        "metrics_episode_collection_timeout_s": _OLD_STACK,
        "min_time_s_per_iteration": _ITERATION,
        "min_train_timesteps_per_iteration": _ITERATION,
        "min_sample_timesteps_per_iteration": _ITERATION,
        "log_gradients": "grad_norm is always logged, and more by diagnostics(gradients_interval=…)",
    },
    "checkpointing": {
        "export_native_model_files": _CHECKPOINT,
        "checkpoint_trainable_policies_only": _CHECKPOINT,
    },
    "debugging": {"log_sys_usage": _OLD_STACK, "fake_sampler": _OLD_STACK},
    "fault_tolerance": {
        "restart_failed_env_runners": f"{_LOST}: fault_tolerance(max_num_env_runner_restarts=0) restarts none",
        "ignore_env_runner_failures": _LOST,
        "restart_failed_sub_environments": "an environment that fails ends its own episode alone, and is made anew",
        "num_consecutive_env_runner_failures_tolerance": _LOST,
        "env_runner_health_probe_timeout_s": _PROBE,
        "env_runner_restore_timeout_s": _PROBE,
    },
    "experimental": {
        "_validate_config": "a config is always checked",
        "_use_msgpack_checkpoints": _CHECKPOINT,
        "_torch_grad_scaler_class": "weights are float32, and activations what llm(dtype=…) says",
        "_torch_lr_scheduler_classes": "the learning rate's course is training(lr_schedule=…)",
        **dict.fromkeys(
            (
                *("_tf_policy_handles_more_than_one_loss", "_disable_preprocessor_api"),
                *("_disable_action_flattening", "_disable_initialize_loss_from_dummy_batch"),
            ),
            _OLD_STACK,
        ),
    },
}
_ARGUMENTS = {
    "framework_str": "framework",
    IS_ATARI: "is_atari",
    BATCH_PER_LEARNER: "train_batch_size_per_learner",
    "dataset_num_iters_per_eval_runner": "dataset_num_iters_per_offline_eval_runner",
}
"""Arguments by attribute, where they differ."""
REFUSED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        attribute: (f"{setter}({_ARGUMENTS.get(attribute, attribute.removeprefix('callbacks_'))}=…)", why)
        for setter, reasons in _BY_SETTER.items()
        for attribute, why in reasons.items()
    }
)
"""Attribute of a config → (the setter's argument as a user says it, why it is refused and what to say instead)."""
_UNSET = "unset"
"""Value of settings that RLlib keeps no default of."""
_MOST_SHOWN = 60
"""Characters of a value that a message shows: enough for what is typed by hand."""


def check_rllib_settings(config: AlgorithmConfig, defaults: AlgorithmConfig) -> None:
    """Refuses settings of RLlib's that would have no effect.

    Args:
        config: to be checked.
        defaults: a new config, whose values are those of settings that nobody has touched.

    Raises:
        ConfigError: one is not its default; the sentence names it, and what to say instead.
    """
    for attribute, (name, why) in REFUSED.items():
        default = getattr(defaults, attribute, _UNSET)
        value = getattr(config, attribute, _UNSET)
        if not _is_same(value, default):
            said = name.replace("…", _shown(value))
            raise ConfigError(f"{said} means nothing to StarPO: {why}; allowed: {_shown(default)}, or leave it out")


def _is_same(value: object, default: object) -> bool:
    try:
        return value is default or bool(value == default)
    except (TypeError, ValueError):
        # Arrays and the like, which no default is.
        return False


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
