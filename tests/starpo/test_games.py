"""Games train end to end: every mode learns what it should, resumes exactly, and refuses what it cannot do."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray.tune.registry import register_env

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.config import StarPOConfig
from tests.rollout.marked import Story, told
from tests.rollout.spoilt_games import GARBLES, SpoiltGame
from tests.starpo.build import largest_difference, metrics_of

LEARNER = "default_policy"
SEATS = ("player_0", "player_1")


def game_config(model: Path, game: str = "kuhn_poker", **games: Any) -> StarPOConfig:
    """Two deals played twice, short replies of a random model."""
    return (
        StarPOConfig()
        .environment(game, env_config={"limits": {"prompt_style": "brief", "max_turns": 2}})
        .llm(model=str(model))
        .rollout(engine="hf", max_reply_tokens=6, max_context_tokens=256)
        .training(num_groups=4, group_size=2, lr=1e-3, estimator="rae", torch_threads=1)
        .diagnostics(diagnostics_interval=0)
        .multi_agent(**games)
    )


def all_weights(algo: StarPO) -> dict[str, torch.Tensor]:
    module = algo.learner_group._learner.module
    return {
        f"{name}/{key}": tensor.detach().clone()
        for name in sorted(module.keys())
        for key, tensor in module[name].state_dict().items()
    }


def of(weights: dict[str, torch.Tensor], policy: str) -> dict[str, torch.Tensor]:
    return {key.split("/", 1)[1]: tensor for key, tensor in weights.items() if key.startswith(f"{policy}/")}


MODES: dict[str, dict[str, Any]] = {
    "self_play": {},
    "per_role": {"play_mode": "per_role"},
    "league": {"play_mode": "league", "league_size": 2, "league_win_rate": None, "league_interval": 2},
    "against": {"play_mode": "against", "opponent": "kuhn_equilibrium"},
}


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("mode", MODES)
def test_a_resumed_game_goes_on_as_if_it_had_never_stopped(model: Path, tmp_path: Path, mode: str) -> None:
    """Bit for bit: every module, the baselines of the roles, and who is in the league since when."""
    whole = game_config(model, **MODES[mode]).build_algo()
    start = all_weights(whole)
    expected = [metrics_of(whole.train()) for _ in range(3)]
    end = all_weights(whole)
    first = game_config(model, **MODES[mode]).build_algo()
    got = [metrics_of(first.train()) for _ in range(2)]
    first.save_checkpoint(str(tmp_path))
    second = game_config(model, **MODES[mode]).build_algo()
    second.load_checkpoint(str(tmp_path))
    got.append(metrics_of(second.train()))
    assert str(got) == str(expected)
    assert largest_difference(all_weights(second), end) == 0.0
    _check_mode(mode, whole, start, end)
    for algo in (whole, first, second):
        algo.stop()


def _check_mode(mode: str, algo: StarPO, start: dict[str, torch.Tensor], end: dict[str, torch.Tensor]) -> None:
    """Whose trajectories there are, and whose weights moved."""
    played = {(t.module_id, t.agent_id) for t in algo.last_trajectories()}
    seats = {"player_0", "player_1"}
    moved = {name for name in algo.config.module_ids() if largest_difference(of(start, name), of(end, name)) > 0}
    if mode == "self_play":
        assert played == {(LEARNER, seat) for seat in seats} and moved == {LEARNER}
    elif mode == "per_role":
        assert played == {(seat, seat) for seat in seats} and moved == seats
    elif mode == "against":
        # In turn from group to group; the script leaves no trajectory.
        assert played == {(LEARNER, seat) for seat in seats} and moved == {LEARNER}
        assert len(algo.last_trajectories()) == 8
    else:
        # The second place was taken after iteration 2, by what the policy was then: not by what it has become.
        assert moved == {LEARNER, "league_1"}
        assert largest_difference(of(end, "league_0"), of(start, "league_0")) == 0.0
        assert largest_difference(of(end, "league_1"), of(end, LEARNER)) > 0.0
        assert {m for m, _ in played} <= {LEARNER, "league_0", "league_1"} and len(played) >= 4
        advantages = algo.last_advantages()
        for trajectory, own in zip(algo.last_trajectories(), advantages, strict=True):
            assert (own is None) == (trajectory.module_id != LEARNER)


@pytest.mark.usefixtures("local_ray")
def test_groups_are_those_of_a_policy_a_role_and_a_game_seed(model: Path) -> None:
    algo = game_config(model).build_algo()
    algo.train()
    groups: dict[str, set[tuple[str, str, int]]] = {}
    for t in algo.last_trajectories():
        groups.setdefault(t.group_id, set()).add((t.module_id, t.agent_id, t.env_seed))
    assert len(groups) == 8 and all(len(same) == 1 for same in groups.values())
    evaluated = algo.evaluate_split("val", 6, greedy=False)
    for seat in ("player_0", "player_1"):
        for opponent in ("uniform", "kuhn_equilibrium"):
            shares = [evaluated[f"{outcome}_rate_{seat}_vs_{opponent}"] for outcome in ("win", "draw", "loss")]
            assert sum(shares) == pytest.approx(1.0)
            assert -2.3 <= evaluated[f"return_{seat}_vs_{opponent}"] <= 2.0
    assert evaluated["num_instances"] == 6.0
    assert metrics_of({"starpo": evaluated}) == metrics_of({"starpo": algo.evaluate_split("val", 6, greedy=False)})
    algo.stop()


@pytest.mark.usefixtures("local_ray")
def test_in_a_cooperative_game_success_is_what_the_policies_reach_together(model: Path) -> None:
    algo = game_config(model, "frozen_lake_pair").build_algo()
    evaluated = algo.evaluate_split("val", 24, greedy=False)
    first, second = (
        {name: evaluated[f"{name}_{seat}_vs_itself"] for name in ("win_rate", "draw_rate", "loss_rate")}
        for seat in ("player_0", "player_1")
    )
    assert first == second, "they win and lose together"
    assert evaluated["success"] == first["win_rate"]
    assert evaluated["return_mean"] == evaluated["return_player_0_vs_itself"]
    assert (evaluated["num_instances"], evaluated["num_failed"]) == (24.0, 0.0)
    assert "win_rate_player_1_vs_uniform" in evaluated
    algo.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("local_ray")
def test_remote_runners_get_every_policys_weights(model: Path) -> None:
    config = game_config(model, **MODES["per_role"]).env_runners(num_env_runners=1)
    algo = config.build_algo()
    algo.train()
    own = all_weights(algo)
    (theirs,) = algo.env_runner_group.foreach_env_runner(
        lambda runner: {m: {n: t.clone() for n, t in e.model.state_dict().items()} for m, e in runner.engines.items()},
        local_env_runner=False,
    )
    for policy, weights in theirs.items():
        plain = {key.removeprefix("llm."): tensor for key, tensor in of(own, policy).items()}
        assert largest_difference({n: weights[n] for n in plain}, plain) == 0.0
    algo.stop()


@pytest.mark.parametrize(
    ("games", "message"),
    [
        ({"play_mode": "duel"}, r"multi_agent\.mode: must be one of self_play, per_role, league, against, or null"),
        ({"opponent": "unifrom"}, r"multi_agent\.opponent: unknown 'unifrom'; did you mean uniform"),
        (
            {"play_mode": "against", "opponent": "minimax"},
            r"multi_agent\.opponent=minimax cannot play Kuhn poker; allowed: uniform, kuhn_equilibrium",
        ),
        ({"league_size": 0}, r"multi_agent\.league_size: must be an integer ≥ 1"),
    ],
)
def test_nonsense_in_games_is_refused(model: Path, games: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        game_config(model, **games).validate()


def test_what_only_games_have_is_refused_elsewhere(model: Path) -> None:
    with pytest.raises(ConfigError, match=r"multi_agent\.mode=self_play with env\.name=bandit, which is no game"):
        game_config(model, play_mode="self_play").environment("bandit", env_config={}).validate()
    with pytest.raises(ConfigError, match=r"env\.max_actions=3 with env\.name=kuhn_poker: a reply in a game"):
        game_config(model).environment("kuhn_poker", env_config={"limits": {"max_actions": 3}}).validate()
    with pytest.raises(ConfigError, match="dynamic_sampling_rounds"):
        game_config(model).credit(dynamic_sampling_rounds=1).validate()


def test_a_users_own_environment_for_several_agents_has_the_limits_of_games(model: Path) -> None:
    """DAPO would count a group for each role, and stop before it has as many games as it was asked for."""
    register_env("story", lambda env_config: Story({"ann": "hello"}, [told(over=True)]))
    config = game_config(model).environment("story", env_config={})
    config.multi_agent(policies={"a"}, policy_mapping_fn=lambda agent, episode, **kwargs: "a")
    config.validate()
    with pytest.raises(
        ConfigError, match=r"dynamic_sampling_rounds=\d+ with env\.name=story: one game makes a group for"
    ):
        config.copy(copy_frozen=False).algorithm("dapo").validate()
    with pytest.raises(ConfigError, match=r"multi_agent\.league_size=7 with env\.name=story, which is no game"):
        config.copy(copy_frozen=False).multi_agent(league_size=7).validate()


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("name", ["half a character", "raises half a character", "reward of nan"])
def test_L1_a_game_that_says_half_a_character_costs_its_own_group_and_the_run_goes_on(model: Path, name: str) -> None:
    garble = GARBLES[name][0]
    register_env("spoilt", lambda env_config: SpoiltGame(garble))
    config = game_config(model).environment("spoilt", env_config={})
    config.multi_agent(policies={"a"}, policy_mapping_fn=lambda agent, episode, **kwargs: "a")
    algo = config.build_algo()
    first, second = (metrics_of(algo.train()) for _ in range(2))
    # Groups 0 to 3, of which the last is spoilt, with two plays of two agents; then groups 4 to 7.
    assert (first["num_failed"], second["num_failed"]) == (4, 0)
    assert {one.error for one in algo.last_trajectories()} == {""}
    algo.stop()


def test_the_weights_of_several_policies_are_not_broadcast(model: Path) -> None:
    config = game_config(model, play_mode="per_role").rollout(engine="vllm").env_runners(num_env_runners=1)
    with pytest.raises(ConfigError, match="broadcast with 2 policies: a channel carries the weights of one"):
        config.vllm(weight_transfer="broadcast").validate()


@pytest.mark.vllm
@pytest.mark.usefixtures("local_ray")
def test_every_policy_has_a_vllm_engine_with_its_own_weights(model: Path) -> None:
    """Two policies that soon differ: each one's log-probs are those of its own weights, version by version."""
    config = (
        game_config(model, play_mode="per_role")
        .rollout(engine="vllm", max_concurrent=8)
        .training(lr=3e-2)
        .env_runners(num_env_runners=1)
    )
    algo = config.build_algo()
    for _ in range(3):
        metrics = metrics_of(algo.train())
        for seat in SEATS:
            assert metrics[f"logprob_gap_max_{seat}"] < 1e-4
    weights = all_weights(algo)
    assert largest_difference(of(weights, SEATS[0]), of(weights, SEATS[1])) > 1e-2
    assert {trajectory.module_id for trajectory in algo.last_trajectories()} == set(SEATS)
    algo.stop()


@pytest.mark.usefixtures("local_ray")
def test_S2_frozen_policies_are_sent_when_they_change_and_to_runners_that_come_back(model: Path) -> None:
    """After every iteration each engine has the learner's weights; a member's stay in the store while they stay."""
    league: dict[str, Any] = {"play_mode": "league", "league_size": 2, "league_win_rate": None, "league_interval": 2}
    algo = game_config(model, **league).env_runners(num_env_runners=1).build_algo()
    sent = []
    for iteration in range(1, 6):
        if iteration == 4:
            ray.kill(next(iter(algo.env_runner_group._worker_manager.actors().values())), no_restart=False)
        algo.train()
        assert algo._rollouts.snapshot is not None and algo._rollouts.snapshot.weights is not None
        sent.append(algo._rollouts.snapshot.weights)
        own = {name: of(all_weights(algo), name) for name in sent[-1]}
        (theirs,) = algo.env_runner_group.foreach_env_runner(engine_weights, local_env_runner=False)
        for name, (version, weights) in theirs.items():
            assert version == algo.policy_version
            assert largest_difference(weights, {key.removeprefix("llm."): t for key, t in own[name].items()}) == 0.0
    stayed = [[one[name] == other[name] for one, other in pairwise(sent)] for name in ("league_0", "league_1", LEARNER)]
    # Copied after 2 iterations to the free place, after 4 over the oldest member.
    assert stayed == [[True, True, False, True], [False, True, True, True], [False] * 4]
    algo.stop()


def engine_weights(runner: Any) -> dict[str, tuple[int, dict[str, torch.Tensor]]]:
    return {
        name: (engine.version, {key: tensor.clone() for key, tensor in engine.model.state_dict().items()})
        for name, engine in runner.engines.items()
    }


def test_policies_and_mappings_that_do_not_fit_are_refused(model: Path) -> None:
    def mapped(policy: str) -> StarPOConfig:
        config = game_config(model)
        config.multi_agent(
            policies={"a", "b"}, policy_mapping_fn=lambda agent, episode, **kwargs: policy, policies_to_train=["a"]
        )
        return config

    mapped("a").validate()
    mapped("script:uniform").validate()
    with pytest.raises(ConfigError, match="seat 'player_0' of kuhn_poker is mapped to 'c'; allowed: a, b"):
        mapped("c").validate()
    with pytest.raises(ValueError, match="no scripted player 'unifrom'"):
        mapped("script:unifrom").validate()
    with pytest.raises(ConfigError, match=r"policy_mapping_fn=…\): say which policy plays which agent"):
        game_config(model).multi_agent(policies={"a"}).validate()


@pytest.mark.parametrize("name", ["tictactoe", "TicTacToe", "tic-tac-toe", "ragen/TicTacToe-v0", "tic_tac_toe"])
def test_a_game_is_known_however_it_is_written(name: str) -> None:
    config = StarPOConfig().environment(name)
    assert config.game() == "tic_tac_toe" and config.to_run_config().env.name == "tic_tac_toe"
