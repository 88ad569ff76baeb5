"""Several environments and a curriculum in one algorithm: apart in groups and figures, resumed to the last bit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ragen_envs.registry import register_text_env
from ragen_envs.sokoban.env import SokobanEnv
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.diagnostics.metrics import find_metric, heading_of, label_of, unit_of
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.users_names import known_here_alone
from tests.starpo.build import metrics_of
from tests.starpo.test_resume import numbers, state_of

pytestmark = pytest.mark.usefixtures("local_ray")
LAKE = {"name": "frozen_lake", "task": {"success_rate": 1.0}, "max_turns": 2, "think": False, "max_reply_tokens": 12}
SOKOBAN: dict[str, Any] = {
    "name": "sokoban",
    "weight": 2,
    "curriculum": {
        "levels": [{"task": {"min_solution_steps": k}} for k in (1, 3)], "window": 2, "raise_at": 0.2, "low": 0.05,
        "eval_levels": "all",
    },
}  # fmt: skip


def config_of(*entries: dict[str, Any], **training: Any) -> StarPOConfig:
    config = StarPOConfig().environments(*entries).rollout(engine="hf")
    given: dict[str, Any] = {
        "num_groups": 6,
        "group_size": 4,
        "lr": 1e-3,
        "torch_threads": 1,
        "estimator": "reinforce++",
    }
    return config.training(**given, **training).diagnostics(diagnostics_interval=2, diagnostics_num_prompts=4)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three iterations, with a checkpoint after the second, and what was seen of them."""
    folder = tmp_path_factory.mktemp("checkpoint")
    algo = config_of(SOKOBAN, LAKE).build_algo()
    results = [algo.train(), algo.train()]
    algo.save_checkpoint(str(folder))
    results.append(algo.train())
    seen = {
        "folder": folder,
        "results": results,
        "played": algo.last_trajectories(),
        "state": state_of(algo),
        "evaluated": algo.evaluate_split("val", 6, greedy=True),
        "instances": dict(algo.success_by_instance),
        "lake": algo.evaluate_split("val", 6, greedy=True, env="frozen_lake"),
    }
    with pytest.raises(ValueError, match="unknown environment 'lake'; allowed: sokoban, frozen_lake"):
        algo.evaluate_split("val", 6, greedy=True, env="lake")
    algo.stop()
    return seen


def test_groups_are_of_one_environment_and_level_each_with_its_own_limits(trained: dict[str, Any]) -> None:
    groups: dict[str, set[tuple[str, int, int]]] = {}
    for one in trained["played"]:
        groups.setdefault(one.group_id, set()).add((one.env, one.level, one.env_seed))
        assert len(one.turns) <= (2 if one.env == "frozen_lake" else 5)
        longest = max(len(turn.reply_ids) for turn in one.turns)
        assert longest <= (12 if one.env == "frozen_lake" else 72)
    assert len(groups) == 6 and all(len(found) == 1 for found in groups.values())
    envs = [env for ((env, _, _),) in groups.values()]
    assert (envs.count("sokoban"), envs.count("frozen_lake")) == (4, 2)
    assert any(len(turn.reply_ids) > 12 for one in trained["played"] if one.env == "sokoban" for turn in one.turns)
    lake = [turn.reply for one in trained["played"] if one.env == "frozen_lake" for turn in one.turns]
    assert sum("<think>" in reply for reply in lake) < len(lake) / 2, "told without thoughts"


def test_statistics_are_in_all_and_by_environment(trained: dict[str, Any]) -> None:
    found = trained["results"][-1]["starpo"]
    assert found["num_groups"] == 6
    assert (found["sokoban/num_groups"], found["frozen_lake/num_groups"]) == (4, 2)
    assert found["success"] == pytest.approx((2 * found["sokoban/success"] + found["frozen_lake/success"]) / 3)
    assert found["frozen_lake/turns_mean"] <= 2 and "frozen_lake/levels_open" not in found
    assert found["sokoban/levels_open"] == 2 and trained["results"][0]["starpo"]["sokoban/level_1_groups"] == 4
    assert found["sokoban/level_1_groups"] + found["sokoban/level_2_groups"] == 4
    assert {name for name in found if find_metric(name) is None} == set(), "not in diagnostics/metrics.py"
    assert {name.partition("/")[2] for name in found if name.startswith("frozen_lake/")} <= set(found), "the same names"
    assert (heading_of("sokoban/level_1_groups"), heading_of("levels_open")) == ("sokoban", "curriculum")
    assert (label_of("level_2_success"), unit_of("sokoban/success")) == ("level 2 success", "share")
    assert math.isfinite(found["sokoban/first_turn_conditional_entropy_token"])
    assert math.isnan(found["first_turn_conditional_entropy_token"]), "not over all prompts together"


def test_each_is_evaluated_on_its_own_instances_as_if_it_were_alone(trained: dict[str, Any]) -> None:
    found, lake = trained["evaluated"], trained["lake"]
    assert found["success"] == pytest.approx((found["sokoban/success"] + found["frozen_lake/success"]) / 2)
    assert found["num_instances"] == 12 and found["sokoban/level_1/num_instances"] == 6
    assert {key: found[key] for key in lake if "/" in key} == {key: value for key, value in lake.items() if "/" in key}
    assert lake["success"] == lake["frozen_lake/success"]
    assert {key.rpartition("/")[0] for key in trained["instances"]} == {"sokoban", "sokoban/level_1", "frozen_lake"}


def test_R1_a_resumed_run_goes_on_to_the_last_bit_curriculum_and_all(trained: dict[str, Any]) -> None:
    again = config_of(SOKOBAN, LAKE).build_algo()
    again.load_checkpoint(str(trained["folder"]))
    assert numbers(again.train()) == numbers(trained["results"][-1])
    assert state_of(again) == trained["state"]
    assert "matchmaker.curricula.sokoban.open" in " ".join(trained["state"]).replace("progress.", "")
    again.stop()


def test_one_environment_with_a_curriculum_has_plain_names(tmp_path: Path) -> None:
    levels = {**SOKOBAN["curriculum"], "raise_at": 0.01, "low": 0.001}
    config = config_of(LAKE).environment("sokoban", env_config={"curriculum": levels})
    algo: StarPO = config.build_algo()
    first = algo.train()["starpo"]
    assert first["levels_open"] == 2 and first["level_1_groups"] == 6 and "sokoban/success" not in first
    assert {one.env for one in algo.last_trajectories()} == {""}
    found = metrics_of({"starpo": algo.evaluate_split("test", 3, greedy=False)})
    assert found["num_instances"] == found["level_1/num_instances"] == 3
    specs = algo._matchmaker.training_specs(6, 40)
    assert {spec.level for spec in specs} == {0, 1}
    algo.stop()


def test_a_users_environment_among_them_reaches_other_processes() -> None:
    register_text_env("my_rooms", SokobanEnv)
    config = StarPOConfig().environments({"name": "my_rooms"}, LAKE)
    assert config.to_dict()["registered_in_python"] == {"environment": {"my_rooms": SokobanEnv}}
    assert known_here_alone(config.to_run_config()) == ["my_rooms"]


def test_what_python_says_comes_back_as_it_was_said() -> None:
    config = config_of(SOKOBAN, LAKE)
    run = config.to_run_config()
    assert StarPOConfig.from_run_config(run).to_run_config() == run
    assert [entry.name for entry in run.envs] == ["sokoban", "frozen_lake"]
    with pytest.raises(ValueError, match="unknown environment 'sokobann'"):
        StarPOConfig().environments({"name": "sokobann"})
    with pytest.raises(ValueError, match="name at least one"):
        StarPOConfig().environments()
    with pytest.raises(ConfigError, match=r"^env.reply_prefix='<think>' with several environments"):
        config_of(SOKOBAN, LAKE).llm(reply_prefix="<think>").to_run_config()
    with pytest.raises(ConfigError, match=r"^env_config: unknown key 'level'; allowed: task, limits, curriculum$"):
        StarPOConfig().environment("sokoban", env_config={"level": 3}).to_run_config()
    with pytest.raises(ConfigError, match=r"^env_config: 'task' with several environments"):
        config_of(SOKOBAN, LAKE).environment(env_config={"task": {}}).to_run_config()
    with pytest.raises(ConfigError, match=r"^multi_agent\(policies=…\) with several environments"):
        config_of(SOKOBAN, LAKE).multi_agent(policies={"a"}, policy_mapping_fn=lambda *_: "a").validate()
    with pytest.raises(ConfigError, match=r"^envs\[1\].reply_prefix='Up' is not how a reply can begin"):
        config_of(SOKOBAN, {**LAKE, "reply_prefix": "Up"}).validate()


def test_stored_trajectories_are_learnt_from_by_their_labels(tmp_path: Path) -> None:
    plain = {"name": "sokoban"}
    algo = config_of(LAKE, plain, rewards=["format_reward"]).offline_data(output=str(tmp_path)).build_algo()
    played = metrics_of(algo.train())
    algo.stop()
    assert math.isfinite(played["sokoban/reward_format_reward"])
    algo = config_of(LAKE, plain).offline_data(input_=str(tmp_path)).build_algo()
    learnt = metrics_of(algo.train())
    algo.stop()
    for label in ("frozen_lake", "sokoban"):
        assert learnt[f"{label}/num_groups"] == played[f"{label}/num_groups"] == 3
        assert learnt[f"{label}/success"] == played[f"{label}/success"]
    with pytest.raises(ConfigError, match=r"is of the environment '.*'; allowed in this run: sokoban, bandit"):
        config_of(plain, {"name": "bandit"}).offline_data(input_=str(tmp_path)).llm(
            model=algo.config.model_path
        ).build_algo()
