"""Rewards of one's own in training: what moves the weights, what stays the environment's, and how they go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from rllib_ragen.faults.exit_codes import NothingPlayed
from rllib_ragen.rollout.specs import evaluation_specs
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.types import StopReason, Trajectory
from tests.credit.judge_server import completion, stub_server
from tests.starpo.build import digits_config, largest_difference, metrics_of, weights
from tests.starpo.test_games import game_config

pytestmark = pytest.mark.usefixtures("local_ray")
OWN = "tests.credit.own_rewards"
NO_PAY = {"pay": 0.0}
"""Every return of the environment is the same."""


def build(model: Path, rewards: Any, **settings: Any) -> StarPO:
    algo: StarPO = digits_config(model, rewards=rewards, **settings).build_algo()
    return algo


def test_what_is_trained_on_is_the_sum_and_what_is_measured_the_environments(model: Path) -> None:
    told = [{"name": f"{OWN}:length", "weight": 0.5}, {"name": f"{OWN}:of_a_turn", "label": "logged", "weight": 0}]
    algo = build(model, told, env=NO_PAY, filter="top_p")
    result = algo.train()["starpo"]
    played = algo.last_trajectories()
    lengths = [one.num_reply_tokens for one in played]
    assert [one.episode_return for one in played] == [0.5 * length for length in lengths]
    assert {turn.raw_reward for one in played for turn in one.turns} == {0.0}
    assert result["return_mean"] == 0 and result["group_reward_std"] > 0, "filters see what is trained on"
    assert result["reward_length"] == pytest.approx(np.mean(lengths))
    assert result["reward_logged"] == pytest.approx(np.mean(lengths) / 10)
    assert result["trained_return_mean"] == pytest.approx(np.mean(lengths) / 2)
    credited = [a for a in algo.last_advantages() if a is not None]
    assert credited and any(a.any() for a in credited), "with the environment alone there is nothing to learn"
    for greedy in (False, True):
        assert algo.evaluate_split("val", 3, greedy)["return_mean"] == 0
    assert not any(one.rewards for one in algo._rollouts.evaluate(evaluation_specs("val", [0]), False).trajectories)
    algo.stop()


def test_a_weight_of_zero_trains_the_same_to_the_last_bit(model: Path) -> None:
    plain, logging = build(model, []), build(model, [{"name": f"{OWN}:length", "weight": 0}])
    ours = [metrics_of(plain.train()) for _ in range(2)]
    theirs = [metrics_of(logging.train()) for _ in range(2)]
    for mine, other in zip(ours, theirs, strict=True):
        assert {name: other[name] for name in mine} == mine
    both = [weights(algo.learner_group._learner) for algo in (plain, logging)]
    assert largest_difference(*both) == 0.0
    plain.stop()
    logging.stop()


def test_dynamic_sampling_looks_at_the_sum(model: Path) -> None:
    told = build(model, [f"{OWN}:different"], env=NO_PAY, dynamic_sampling_rounds=2)
    assert told.train()["starpo"]["sampling_rounds"] == 1
    told.stop()
    flat = build(model, [{"name": "env", "weight": 0}, f"{OWN}:slowly"], dynamic_sampling_rounds=2)
    assert flat.train()["starpo"]["sampling_rounds"] == 3, "two a turn for everybody"
    flat.stop()


def test_a_fault_drops_its_trajectory_and_where_all_fail_the_run_stops_between_updates(model: Path) -> None:
    algo = build(model, [f"{OWN}:fails_on_group_1"])
    result = algo.train()["starpo"]
    assert (result["num_failed"], result["num_groups"]) == (4, 3)
    lost = [one for one in algo.last_trajectories() if one.stop_reason is StopReason.REWARD_ERROR]
    assert {one.group_id for one in lost} == {"1"}
    assert {one.error for one in lost} == {f"the reward {OWN}:fails_on_group_1 raised KeyError: 'no such group'"}
    algo.stop()
    broken = build(model, [f"{OWN}:fails"])
    before = broken._counters.next_group
    with pytest.raises(NothingPlayed, match=r"fails raised RuntimeError: nothing to give"):
        broken.train()
    assert broken.between_updates and broken._counters.next_group == before
    broken.stop()


@pytest.mark.parametrize("overlap", ["off", pytest.param("one_step_off", marks=pytest.mark.slow)])
def test_a_restored_run_goes_on_with_what_its_rewards_knew(
    model: Path, tmp_path: Path, overlap: Literal["off", "one_step_off"]
) -> None:
    def built() -> StarPO:
        config = digits_config(model, rewards=[{"name": f"{OWN}:Counts", "start": 0, "weight": 1e-3}])
        if overlap != "off":
            config.rollout(overlap="one_step_off").env_runners(num_env_runners=1)
        algo: StarPO = config.build_algo()
        return algo

    def given(played: list[Trajectory]) -> list[float]:
        return [one.rewards["Counts"] for one in played]

    whole = built()
    whole.train()
    whole.save_to_path(tmp_path)
    wanted = [metrics_of(whole.train()), given(whole.last_trajectories())]
    whole.stop()
    again = built()
    again.restore_from_path(tmp_path)
    assert [metrics_of(again.train()), given(again.last_trajectories())] == wanted
    again.stop()


def test_a_judge_without_budget_for_another_batch_ends_the_run(model: Path) -> None:
    """16 trajectories an iteration, each another question."""
    with stub_server(lambda number, body: (200, completion("5"), {})) as stub:
        told = {"name": "judge", "base_url": stub.url, "model": "m", "budget_calls": 30, "prompt": "{transcript}"}
        algo = build(model, [told])
        result = algo.train()["starpo"]
        calls = int(result["judge_calls_lifetime"])
        assert calls + result["judge_remembered_lifetime"] == 16 and calls == len(stub.asked) > 14
        assert algo.stop_reason == (
            f"the judge has made {calls} of its 30 calls (budget_calls), and a batch has taken up to {calls}"
        )
        algo.stop()


@pytest.mark.parametrize("mode", ["self_play", "league", "per_role"])
def test_in_a_game_every_seat_that_learns_is_rewarded_by_itself(model: Path, mode: str) -> None:
    """Earlier copies of the policy play, too, and are nobody's to reward."""
    config = game_config(model, "rock_paper_scissors", play_mode=mode)
    algo: StarPO = config.training(rewards=[f"{OWN}:seat"]).build_algo()
    result = algo.train()["starpo"]
    played = algo.last_trajectories()
    learning = [one for one in played if one.module_id in algo.trained_ids]
    assert {one.agent_id for one in learning} == {"player_0", "player_1"}
    for one in played:
        known = {"seat": float(one.agent_id == "player_1")} if one in learning else {}
        assert one.rewards == known
        assert one.episode_return == pytest.approx(one.env_return + known.get("seat", 0.0))
    assert (len(learning) < len(played)) == (mode == "league")
    for seat in ("player_0", "player_1"):
        own = [one.env_return for one in learning if one.agent_id == seat]
        assert result[f"return_{seat}"] == pytest.approx(np.mean(own))
    algo.stop()


def test_evaluations_sample_at_their_own_temperature(model: Path) -> None:
    """They reply as rollouts would at that temperature, which these do not have; without one, at theirs."""
    specs = evaluation_specs("val", range(3))

    def replies(played: list[Trajectory]) -> list[str]:
        return [turn.reply for one in played for turn in one.turns]

    def said(told: StarPO, evaluated: bool) -> list[str]:
        played = told._rollouts.evaluate(specs, False) if evaluated else told._rollouts.play(specs)
        return replies(played.trajectories)

    cool: StarPO = digits_config(model).rollout(temperature=0.5).build_algo()
    warm: StarPO = digits_config(model).rollout(temperature=1.3, eval_temperature=0.5).build_algo()
    assert said(warm, evaluated=True) == said(cool, evaluated=True) == said(cool, evaluated=False)
    assert said(warm, evaluated=False) != said(cool, evaluated=False)
    greedy = [replies(one._rollouts.evaluate(specs, True).trajectories) for one in (warm, cool)]
    assert greedy[0] == greedy[1]
    cool.stop()
    warm.stop()
