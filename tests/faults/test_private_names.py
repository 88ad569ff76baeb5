"""Every private name of a library that we lean on still is there and still does what we lean on it for.

A failure here after an upgrade names what the files of rllib_ragen/faults/private_names must do in another way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
import ray
import torch
from ray.exceptions import RpcError
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_OPTIMIZER, COMPONENT_RL_MODULE
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.tune.registry import register_env

from rllib_ragen.faults.heartbeat import heartbeat_of
from rllib_ragen.faults.private_names import of_ray, of_rllib_config
from rllib_ragen.faults.private_names.need import NameGone, need
from rllib_ragen.faults.private_names.of_optuna import note
from rllib_ragen.faults.private_names.of_ray import actor_key, actor_manager, is_registered_env, read_note, write_note
from rllib_ragen.faults.private_names.of_rllib import (
    attribute_of_key,
    chosen_parts,
    keep_runner_states,
    local_learner,
    seed_of_runner,
)
from rllib_ragen.faults.private_names.of_rllib_config import setting
from rllib_ragen.faults.private_names.of_rllib_learner import LearnerHooks
from rllib_ragen.faults.private_names.of_torch import ask_for_amx, c10d, gloo_group, storage_key
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.learner_calls import on_every_learner
from rllib_ragen.run import start_ray
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.config import StarPOConfig
from tests.starpo.build import MODULE, digits_config, random_rows, update
from tests.starpo.conftest import local_ray, model, one_thread

__all__ = ["local_ray", "model", "one_thread"]


@pytest.fixture(scope="module")
def algo(local_ray: None, model: Path) -> Iterator[StarPO]:
    """With one remote runner and two remote learners."""
    config = digits_config(model, num_groups=1).env_runners(num_env_runners=1).learners(num_learners=2)
    algorithm: StarPO = config.build_algo()
    yield algorithm
    algorithm.stop()


class Recording(StarPOLearner):
    """A learner that writes down which of RLlib's hooks are called, in order."""

    def build(self) -> None:
        self.called: list[str] = []
        super().build()

    def place_modules(self, modules: Any) -> None:
        self.called.append("place")
        super().place_modules(modules)

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        self.called.append("optimizers")
        super().configure_optimizers_for_module(module_id, config)

    def _make_modules_ddp_if_necessary(self) -> None:
        self.called.append("ddp")
        super()._make_modules_ddp_if_necessary()

    def optimizer_states(self) -> dict[str, Any]:
        self.called.append("get")
        return super().optimizer_states()

    def set_optimizer_states(self, states: dict[str, Any]) -> None:
        self.called.append("set")
        super().set_optimizer_states(states)


def recording(model: Path) -> Recording:
    config = digits_config(model).learners(learner_class=Recording)
    config.validate()
    learner: Recording = config.build_learner()
    return learner


def test_a_name_that_has_gone_is_told_with_library_and_version() -> None:
    with pytest.raises(
        NameGone, match=rf"ray {ray.__version__}: ray\..*AlgorithmConfig has no '_gone' any more; .*pri"
    ):
        need(AlgorithmConfig(), "_gone", "ray")


def test_rllib_places_modules_before_optimizers_and_asks_for_ddp(model: Path) -> None:
    assert recording(model).called == ["place", "optimizers", "ddp"]


def test_rllib_saves_and_loads_optimizers_through_the_hooks(model: Path) -> None:
    learner = recording(model)
    update(learner, random_rows(4))
    learner.called.clear()
    state = learner.get_state()
    learner.set_state(state)
    assert learner.called == ["get", "set"]
    assert state[COMPONENT_OPTIMIZER].keys() == {name for name, *_ in learner.named_optimizers} == {f"{MODULE}_policy"}
    assert [module_id for _, module_id, _ in learner.named_optimizers] == [MODULE]


def test_the_number_of_updates_is_the_one_that_rllib_saves(model: Path) -> None:
    learner = recording(model)
    update(learner, random_rows(4))
    assert learner.num_updates == learner.get_state()["weights_seq_no"] == 1
    learner.num_updates = 7
    assert learner.get_state()["weights_seq_no"] == 7
    assert (learner.index, learner.device) == (0, torch.device("cpu"))


@pytest.mark.parametrize(
    "name", ["_map_module_to_device", "_make_modules_ddp_if_necessary", "_get_optimizer_state", "_set_optimizer_state"]
)
def test_what_is_overridden_is_there_to_be_overridden(name: str) -> None:
    assert getattr(LearnerHooks, name) is not getattr(TorchLearner, name)


def test_rllibs_learner_numbers_itself_as_its_actor_is_numbered(algo: StarPO) -> None:
    assert on_every_learner(algo.learner_group, lambda learner: learner.index) == [0, 1]
    assert sorted(actor_manager(algo.learner_group).actor_ids()) == [0, 1]
    assert local_learner(algo.learner_group) is None


def test_a_local_learner_is_found(local_ray: None, model: Path) -> None:
    algorithm = digits_config(model).build_algo()
    assert isinstance(local_learner(algorithm.learner_group), Learner)
    algorithm.stop()


def test_actors_are_found_under_the_names_that_they_give_themselves(algo: StarPO) -> None:
    for group in (algo.env_runner_group, algo.learner_group):
        for actor in actor_manager(group).actors().values():
            own = ray.get(actor.apply.remote(lambda _: ray.get_runtime_context().get_actor_id()))
            assert actor_key(actor) == own


def test_an_actors_heartbeat_is_seen_from_here(algo: StarPO) -> None:
    def beats(_: Any) -> None:
        from rllib_ragen.faults import heartbeat

        heartbeat._Own.told = float("-inf")
        heartbeat.beat(3, 8)

    (actor,) = actor_manager(algo.env_runner_group).actors().values()
    ray.get(actor.apply.remote(beats))
    assert heartbeat_of(actor_key(actor))[1:] == (3, 8)


def test_notes_are_kept_and_only_a_store_that_is_gone_is_no_error(
    local_ray: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_note("rllib_ragen/test", "one")
    write_note("rllib_ragen/test", "two")
    assert read_note("rllib_ragen/test") == "two" and read_note("rllib_ragen/nothing") is None
    told: list[object] = []
    monkeypatch.setattr(of_ray.logger, "warning", lambda *said: told.append(said))
    monkeypatch.setattr(of_ray._Told, "is_store_gone", False)

    def raises(error: Exception) -> Any:
        def call(*_: Any) -> None:
            raise error

        return call

    monkeypatch.setattr(of_ray, "_internal_kv_get", raises(RpcError("gone")))
    monkeypatch.setattr(of_ray, "_internal_kv_put", raises(RpcError("gone")))
    write_note("x", "y")
    assert read_note("x") is None
    monkeypatch.setattr(of_ray, "_internal_kv_get", raises(TypeError("another signature")))
    monkeypatch.setattr(of_ray, "_internal_kv_put", raises(TypeError("another signature")))
    with pytest.raises(TypeError, match="another signature"):
        read_note("x")
    with pytest.raises(TypeError, match="another signature"):
        write_note("x", "y")
    assert len(told) == 1, "once, not at every look"


def test_rllib_builds_its_learners_through_the_config(algo: StarPO) -> None:
    assert type(algo.learner_group).__name__ == "StarPOLearnerGroup"


def test_parts_of_a_state_are_told_apart(algo: StarPO) -> None:
    def parts(components: Any, but: Any) -> Any:
        return chosen_parts(algo.learner_group, COMPONENT_LEARNER, components, but)

    assert parts(None, None) == (True, None, None)
    assert parts([], None)[0] is False
    assert parts(None, "learner") == (False, None, None)
    assert parts("learner/rl_module", "learner/optimizer") == (True, ["rl_module"], ["optimizer"])
    assert algo.learner_group.get_state(components="learner/rl_module")["learner"].keys() >= {COMPONENT_RL_MODULE}


@pytest.mark.parametrize("apart", [True, False])
def test_rllib_leaves_the_runners_states_alone_only_if_it_is_told_so(
    apart: bool, local_ray: None, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[bool] = []
    monkeypatch.setattr(EnvRunnerGroup, "sync_env_runner_states", lambda *_, **__: called.append(True))
    config = digits_config(model, num_groups=1)
    assert config._dont_auto_sync_env_runner_states is True and not AlgorithmConfig()._dont_auto_sync_env_runner_states
    config._dont_auto_sync_env_runner_states = False
    if apart:
        keep_runner_states(config)
    algorithm = config.build_algo()
    # At the start it sends its own state in any case; what counts is after an iteration.
    called.clear()
    algorithm.train()
    algorithm.stop()
    assert bool(called) is not apart


def test_there_is_no_second_group_of_runners_though_there_is_evaluation(local_ray: None, model: Path) -> None:
    config = digits_config(model).evaluation(evaluation_interval=1)
    algorithm = config.build_algo()
    assert algorithm.eval_env_runner_group is None
    algorithm.stop()


def test_the_iteration_that_is_set_is_the_one_that_is_counted_on(local_ray: None, model: Path) -> None:
    algorithm = digits_config(model, num_groups=1).build_algo()
    algorithm.set_iteration(7)
    assert algorithm.iteration == 7
    assert algorithm.train()["training_iteration"] == 8
    algorithm.stop()


def test_every_env_runner_has_a_seed_of_its_own(algo: StarPO) -> None:
    (actor,) = actor_manager(algo.env_runner_group).actors().values()
    assert ray.get(actor.apply.remote(seed_of_runner)) == algo.config.seed + 1


def test_what_setters_leave_is_found_under_its_private_name() -> None:
    config = StarPOConfig().training(train_batch_size_per_learner=3).environment(is_atari=True)
    config.learners(learner_class=Recording, learner_connector=print).rl_module(model_config={"a": 1})
    config.env_runners(env_to_module_connector=print, module_to_env_connector=print)
    found = {name: value for name, value in vars(of_rllib_config).items() if name.isupper()}
    assert {name: setting(config, attribute) for name, attribute in found.items()} == {
        "BATCH_PER_LEARNER": 3,
        "IS_ATARI": True,
        "LEARNER_CLASS": Recording,
        "MODEL_CONFIG": {"a": 1},
        **dict.fromkeys(("LEARNER_CONNECTOR", "ENV_TO_MODULE", "MODULE_TO_ENV"), print),
        "RL_MODULE_SPEC": None,
    }


def test_every_module_gets_the_default_model_config_and_what_is_said_of_it(model: Path) -> None:
    config = digits_config(model).rl_module(model_config={"of the user's": 1})
    assert config.model_config == {**config.default_model_config(), "of the user's": 1}
    (spec,) = config.get_multi_rl_module_spec().rl_module_specs.values()
    assert spec.model_config == config.model_config and spec.model_config["path"] == str(model)


def test_keys_of_other_spellings_are_translated() -> None:
    assert attribute_of_key(StarPOConfig(), "num_env_runners") == "num_env_runners"
    assert attribute_of_key(StarPOConfig(), "num_workers") == "num_env_runners"


def test_a_registered_environment_is_known_by_name() -> None:
    assert not is_registered_env("nobody's")
    register_env("somebody's", lambda _: None)
    assert is_registered_env("somebody's")


def test_ray_reads_the_environment_variables_that_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import accelerators, ray_constants

    # What start_ray sets, and no other spelling, is what Ray looks up.
    source = Path(start_ray.__file__).read_text(encoding="utf-8")
    for name in (ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, accelerators.RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO_ENV_VAR):
        assert f'"{name}"' in source
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    assert ray._private.ray_constants.env_bool(ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, True) is False


def test_a_note_on_a_trial_outlives_the_study_that_made_it(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    study = optuna.create_study(study_name="s", storage=storage)
    study.ask()
    number = study.ask().number
    note(optuna.load_study(study_name="s", storage=storage), number, "run", "b")
    first, second = optuna.load_study(study_name="s", storage=storage).trials
    assert (first.user_attrs, second.user_attrs) == ({}, {"run": "b"})


def test_a_gloo_group_stands_beside_torchs_default_group_and_keeps_its_time_limit() -> None:
    store = c10d.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    with pytest.raises(RuntimeError, match=r"(?i)time.*out"):
        gloo_group(store, 0, 2, "127.0.0.1", 1.0)
    alone = gloo_group(c10d.HashStore(), 0, 1, "127.0.0.1", 5.0)
    assert alone.size() == 1 and not torch.distributed.is_initialized()


def test_a_storage_is_known_by_what_shares_it() -> None:
    whole, other = torch.zeros(4), torch.zeros(4)
    assert storage_key(whole) == storage_key(whole[1:]) == storage_key(whole.view(2, 2)) != storage_key(other)
    empty, another = torch.zeros(0), torch.zeros(0)
    assert empty.data_ptr() == another.data_ptr() and storage_key(empty) != storage_key(another)


def test_amx_is_given_where_the_processor_has_it() -> None:
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8") if os.path.exists("/proc/cpuinfo") else ""
    assert ask_for_amx() is ("amx_tile" in flags)
