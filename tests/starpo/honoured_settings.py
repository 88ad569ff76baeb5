"""RLlib's settings that StarPO honours, each with the test that shows its effect.

With `REFUSED` (rllib_ragen/starpo/checks/rllib_settings.py) these are every argument of every setter of RLlib's
AlgorithmConfig; test_rllib_settings.py holds that.
"""

from __future__ import annotations

from rllib_ragen.faults.private_names.of_rllib_config import (
    ENV_TO_MODULE,
    LEARNER_CLASS,
    LEARNER_CONNECTOR,
    MODEL_CONFIG,
    MODULE_TO_ENV,
    RL_MODULE_SPEC,
)

_CALLBACKS = "tests/starpo/test_callbacks.py::test_an_episode_is_created_started_stepped_and_ended_as_one_object"
_RECREATED = "tests/starpo/test_callbacks.py::test_remote_runners_call_back_raise_and_come_back"
_INPUT = "tests/starpo/test_offline.py::test_a_stored_batch_makes_the_step_that_was_made_when_it_was_played"
_OUTPUT = "tests/starpo/test_offline.py::test_output_has_a_file_for_each_iteration_with_all_of_its_trajectories"
_OWN_RUN = "tests/starpo/test_honoured_settings.py::test_what_a_user_of_rllib_sets_is_seen_in_the_run"
_RESOURCES = "tests/starpo/test_honoured_settings.py::test_resources_are_asked_for_as_they_are_said"
_CONNECTORS = "tests/starpo/test_connectors.py::test_connectors_rewrite_what_is_read_said_and_learnt"
_POLICIES = "tests/starpo/test_games.py::test_groups_are_those_of_a_policy_a_role_and_a_game_seed"
_TRAINED = "tests/starpo/test_games.py::test_S2_frozen_policies_are_sent_when_they_change_and_to_runners_that_come_back"
_MODULE = "tests/starpo/test_honoured_settings.py::test_a_module_of_ones_own_gets_the_default_settings_and_its_own"

HONOURED = {
    "env": "tests/starpo/test_config.py::test_yaml_and_fluent_configs_make_the_same_run",
    "env_config": "tests/starpo/test_config.py::test_yaml_and_fluent_configs_make_the_same_run",
    # env_runners
    "env_runner_cls": _OWN_RUN,
    "num_env_runners": "tests/starpo/test_runners.py::test_two_runners_sample_what_one_process_samples",
    "num_cpus_per_env_runner": _RESOURCES,
    "num_gpus_per_env_runner": _RESOURCES,
    "custom_resources_per_env_runner": _RESOURCES,
    "sample_timeout_s": "tests/starpo/test_runners.py::test_sampling_ends_when_its_time_is_up",
    ENV_TO_MODULE: _CONNECTORS,
    MODULE_TO_ENV: _CONNECTORS,
    # learners
    "num_learners": "tests/starpo/test_runners.py::"
    "test_two_learners_go_on_from_one_ones_checkpoint_and_one_from_theirs",
    "num_cpus_per_learner": _RESOURCES,
    "num_gpus_per_learner": _RESOURCES,
    "custom_resources_per_learner": _RESOURCES,
    "local_gpu_idx": "tests/starpo/test_honoured_settings.py::test_the_learner_in_the_driver_takes_the_gpu_it_is_told",
    LEARNER_CLASS: _OWN_RUN,
    "learner_config_dict": _OWN_RUN,
    LEARNER_CONNECTOR: _CONNECTORS,
    # training
    "gamma": "tests/starpo/test_honoured_settings.py::test_settings_of_the_update_reach_it",
    "lr": "tests/starpo/test_honoured_settings.py::test_settings_of_the_update_reach_it",
    "grad_clip": "tests/starpo/test_honoured_settings.py::test_settings_of_the_update_reach_it",
    "num_epochs": "tests/starpo/test_honoured_settings.py::test_settings_of_the_update_reach_it",
    # callbacks
    **dict.fromkeys(
        (
            *("callbacks_class", "callbacks_on_algorithm_init", "callbacks_on_train_result"),
            *("callbacks_on_evaluate_start", "callbacks_on_evaluate_end", "callbacks_on_environment_created"),
            *("callbacks_on_episode_end", "callbacks_on_sample_end", "callbacks_on_checkpoint_loaded"),
        ),
        _OWN_RUN,
    ),
    "callbacks_on_episode_created": _CALLBACKS,
    "callbacks_on_episode_start": _CALLBACKS,
    "callbacks_on_episode_step": _CALLBACKS,
    "callbacks_on_env_runners_recreated": _RECREATED,
    # offline_data
    "input_": _INPUT,
    "output": _OUTPUT,
    # evaluation
    "evaluation_config": "tests/starpo/test_callbacks.py"
    "::test_evaluation_of_rllib_is_greedy_where_explore_says_so_and_may_come_before_training",
    "evaluation_interval": _OWN_RUN,
    "evaluation_duration": _OWN_RUN,
    # multi_agent
    "policies": _POLICIES,
    "policy_mapping_fn": _POLICIES,
    "policies_to_train": _TRAINED,
    # rl_module
    MODEL_CONFIG: _MODULE,
    RL_MODULE_SPEC: _MODULE,
    "algorithm_config_overrides_per_module": "tests/starpo/test_honoured_settings.py::"
    "test_policies_may_have_optimisers_of_their_own",
    # resources
    "num_cpus_for_main_process": _RESOURCES,
    "custom_resources_for_main_process": _RESOURCES,
    "placement_strategy": _RESOURCES,
    # reporting, debugging
    "metrics_num_episodes_for_smoothing": _OWN_RUN,
    "stats_cls_lookup": _OWN_RUN,
    "log_level": _OWN_RUN,
    "seed": "tests/starpo/test_seeds.py::"
    "test_R2_the_seed_reaches_instances_outcomes_and_sampling_and_evaluation_is_the_same_for_all",
    # fault_tolerance
    "max_num_env_runner_restarts": "tests/starpo/test_honoured_settings.py::"
    "test_runners_are_restarted_as_often_as_is_said",
    "delay_between_env_runner_restarts_s": "tests/starpo/test_honoured_settings.py::"
    "test_a_failing_runner_waits_before_it_is_restarted",
}
"""Attribute of a config → the test that shows its effect."""
