"""The algorithm in one process: it learns, it is reproducible, and failed or empty batches do no harm."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rllib_ragen.rollout.episodes import LiveEpisode
from rllib_ragen.rollout.specs import evaluation_specs, training_specs
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.types import StopReason
from tests.credit.build import trajectory
from tests.starpo.build import digits_config, largest_difference, metrics_of, weights

pytestmark = pytest.mark.usefixtures("local_ray")
ALWAYS = {
    *("success", "return_mean", "group_reward_std", "kept_groups", "num_groups", "zero_spread_groups"),
    *("reply_tokens_mean", "reply_tokens_per_s", "valid_ratio", "turns_mean", "entropy", "clip_fraction", "grad_norm"),
    *("logprob_gap_mean", "logprob_gap_max", "policy_loss", "value_loss", "num_failed", "time_rollout_s"),
    *("time_update_s", "time_sync_s", "policy_version", "num_trained_tokens"),
}


def build(model: Path, **settings: Any) -> StarPO:
    algo: StarPO = digits_config(model, **settings).build_algo()
    return algo


def test_it_learns_to_say_digits_and_reports_what_it_does(model: Path) -> None:
    algo = build(model, num_groups=8, lr=3e-3)
    results = [algo.train()["starpo"] for _ in range(10)]
    assert set(results[0]) >= ALWAYS
    assert all(math.isfinite(results[0][name]) for name in ALWAYS)
    returns = [float(result["return_mean"]) for result in results]
    assert np.mean(returns[-3:]) > np.mean(returns[:2]) + 0.5
    assert max(result["logprob_gap_max"] for result in results) < 1e-4, "the learner is the sampler"
    assert [int(result["policy_version"]) for result in results] == list(range(1, 11))
    versions = {turn.policy_version for t in algo.last_trajectories() for turn in t.turns}
    assert versions == {9}, "iteration 10 samples with the weights of 9 updates"
    algo.stop()


def test_the_shared_module_is_one_object(model: Path) -> None:
    algo = build(model)
    assert algo.env_runner.engine.model is algo.learner_group._learner.module["default_policy"].llm
    algo.stop()


def test_R2_the_same_seed_gives_the_same_run_to_the_last_bit_and_another_does_not(model: Path) -> None:
    runs = []
    for seed in (3, 3, 4):
        algo = digits_config(model, estimator="gae", num_minibatches=2, num_epochs=2).debugging(seed=seed).build_algo()
        runs.append(([metrics_of(algo.train()) for _ in range(2)], weights(algo.learner_group._learner)))
        algo.stop()
    assert runs[0][0] == runs[1][0]
    assert largest_difference(runs[0][1], runs[1][1]) == 0.0
    assert runs[0][0] != runs[2][0]


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_S1_on_policy_ratios_are_one_at_any_temperature(model: Path, temperature: float) -> None:
    algo = digits_config(model).rollout(temperature=temperature).build_algo()
    for _ in range(2):
        result = algo.train()["starpo"]
        assert result["logprob_gap_max"] < 1e-4
        assert 0 <= result["logprob_gap_k3"] < 1e-8
    algo.stop()


def test_S3_updates_that_move_nothing_leave_the_gap_where_it_was(model: Path) -> None:
    """At a learning rate that is lost in float32's rounding sampler and learner are one model for ever."""
    algo = build(model, lr=1e-30, num_minibatches=2, num_epochs=2)
    before = weights(algo.learner_group._learner)
    results = [algo.train()["starpo"] for _ in range(4)]
    assert largest_difference(before, weights(algo.learner_group._learner)) < 1e-28, "no weight but 0 could move"
    assert all(result["grad_norm"] > 0 and result["policy_version"] == i for i, result in enumerate(results, start=1))
    assert max(result["logprob_gap_max"] for result in results) < 1e-4
    assert max(result["logprob_gap_k3"] for result in results) < 1e-8
    algo.stop()


def test_T2_the_mask_holds_every_sampled_token_of_every_turn(model: Path) -> None:
    algo = build(model)
    for _ in range(2):
        result = algo.train()["starpo"]
        played = algo.last_trajectories()
        assert result["num_trained_tokens"] == sum(len(turn.reply_ids) for t in played for turn in t.turns) > 0
        assert min(len(t.turns) for t in played) == 2
    algo.stop()


def test_evaluation_moves_nothing(model: Path) -> None:
    """A run with validation before, between and after its iterations, and one without: the same to the last bit."""
    plain, evaluated = (build(model, estimator="gae", num_minibatches=2) for _ in range(2))
    first = [metrics_of(plain.train()) for _ in range(3)]
    second, scores = [], []
    for _ in range(3):
        scores += [evaluated.evaluate_split("val", 6, greedy) for greedy in (False, False, True)]
        evaluated.evaluate_split("test", 5, True)
        second.append(metrics_of(evaluated.train()))
    evaluated.evaluate_split("val", 6, False)
    assert scores[0] == scores[1] != scores[2]
    assert scores[0]["num_instances"] == 6
    assert first == second
    mine, theirs = (weights(algo.learner_group._learner) for algo in (evaluated, plain))
    assert largest_difference(mine, theirs) == 0.0
    assert evaluated._counters == plain._counters
    plain.stop()
    evaluated.stop()


def test_rllib_evaluation_uses_the_training_runners(model: Path) -> None:
    algo = digits_config(model).evaluation(evaluation_interval=2, evaluation_duration=4).build_algo()
    assert algo.eval_env_runner_group is None
    assert "evaluation" not in algo.train()
    found = algo.train()["evaluation"]
    assert {"success", "return_mean"} <= found["sampled"].keys() & found["greedy"].keys()
    algo.stop()


def test_C2_failed_rollouts_count_in_no_statistic(model: Path) -> None:
    algo = digits_config(model, env={"raise_on": 3}, num_groups=24).build_algo()
    result = algo.train()["starpo"]
    played = algo.last_trajectories()
    failed = [t for t in played if t.stop_reason is StopReason.ENV_ERROR]
    alive = [t for t in played if not t.stop_reason.failed]
    assert len(failed) == result["num_failed"] > 0
    assert "this instance is broken" in failed[0].error
    assert result["return_mean"] == pytest.approx(np.mean([t.episode_return for t in alive]))
    assert result["num_groups"] == len({t.group_id for t in alive})
    assert result["num_trained_tokens"] == sum(t.num_reply_tokens for t in alive)
    algo.stop()


def test_batches_with_nothing_to_learn_from_update_nothing_and_stop_the_run_in_the_end(model: Path) -> None:
    # Nobody is paid, so no group has any spread, and the filter keeps none.
    config = digits_config(model, env={"pay": 0.0}, filter="top_p", max_empty_updates=2)
    algo = config.build_algo()
    before = weights(algo.learner_group._learner)
    first = algo.train()["starpo"]
    assert algo.stop_reason is None
    second = algo.train()["starpo"]
    assert (first["kept_groups"], second["num_trained_tokens"], second["policy_version"]) == (0, 0, 0)
    assert math.isnan(second["policy_loss"])
    assert algo.stop_reason is not None and "2 batches in a row" in algo.stop_reason
    assert largest_difference(before, weights(algo.learner_group._learner)) == 0.0
    algo.stop()


def test_a_batch_of_which_every_rollout_failed_updates_nothing(model: Path) -> None:
    algo = digits_config(model, env={"broken": True}).build_algo()
    result = algo.train()["starpo"]
    assert (result["num_failed"], result["num_groups"], result["policy_version"]) == (16, 0, 0)
    assert math.isnan(result["success"])
    algo.stop()


def test_C1_members_of_a_group_share_its_name_and_instance_and_nothing_else() -> None:
    specs = training_specs(5, first_group=7, num_groups=3, group_size=4)
    groups: dict[str, list[Any]] = {}
    for spec in specs:
        groups.setdefault(spec.group_id, []).append(spec)
    assert [len(members) for members in groups.values()] == [4, 4, 4]
    for members in groups.values():
        assert len({spec.env_seed for spec in members}) == 1
        assert len({spec.sampling_seed for spec in members}) == len({spec.outcome_seed for spec in members}) == 4
    assert len({members[0].env_seed for members in groups.values()}) == 3


def test_specs_are_the_same_in_every_draw_and_differ_between_seeds_and_splits() -> None:
    assert training_specs(1, 0, 4, 2) == training_specs(1, 0, 2, 2) + training_specs(1, 2, 2, 2)
    env_seeds = [{spec.env_seed for spec in training_specs(seed, 0, 50, 1)} for seed in range(3)]
    assert len(set.union(*env_seeds)) == 150
    assert evaluation_specs("val", range(3)) == evaluation_specs("val", range(5))[:3]
    assert all(spec.split == "test" for spec in evaluation_specs("test", range(2)))


def test_a_trajectory_survives_the_way_through_an_rllib_episode() -> None:
    before = trajectory("g", [(4, 3, 0.5), (2, 5, -0.1)], StopReason.FAILED)
    before.success, before.turns[1].reply, before.turns[0].valid = True, "text", False
    episode = LiveEpisode(before).close()
    assert (len(episode), episode.get_return()) == (2, pytest.approx(0.4))
    assert episode.is_terminated and not episode.is_truncated
    after = episode.trajectory
    for name in ("token_ids", "turn_index", "behaviour_logprobs"):
        np.testing.assert_array_equal(getattr(before, name)(), getattr(after, name)())
    assert [vars(t).keys() for t in after.turns] == [vars(t).keys() for t in before.turns]
    for one, other in zip(before.turns, after.turns, strict=True):
        assert (one.reward, one.valid, one.reply, one.policy_version) == (
            other.reward,
            other.valid,
            other.reply,
            other.policy_version,
        )
    assert (after.group_id, after.stop_reason, after.success) == ("g", StopReason.FAILED, True)


def test_an_episode_without_a_turn_survives_too() -> None:
    before = trajectory("g", [], StopReason.CONTEXT_FULL)
    after = LiveEpisode(before).close().trajectory
    assert after.turns == [] and after.stop_reason is StopReason.CONTEXT_FULL


def test_callbacks_see_episodes_and_may_change_rewards(model: Path) -> None:
    seen: list[int] = []

    def halve(*, episode: Any, **kwargs: Any) -> None:
        seen.append(len(episode))
        for t, reward in enumerate(episode.rewards.data):
            episode.rewards.data[t] = reward / 2

    plain = build(model)
    halved = digits_config(model).callbacks(on_episode_end=halve).build_algo()
    results = [algo.train() for algo in (plain, halved)]
    assert seen == [2] * 16
    assert results[1]["starpo"]["return_mean"] == pytest.approx(results[0]["starpo"]["return_mean"] / 2)
    assert results[1]["env_runners"]["num_env_steps_sampled"] == 32
    plain.stop()
    halved.stop()


def test_bfloat16_trains_on_float32_weights_and_samples_in_bfloat16(model: Path) -> None:
    algo = digits_config(model).llm(dtype="bfloat16").build_algo()
    result = algo.train()["starpo"]
    assert algo.env_runner.module.llm.dtype == torch.bfloat16
    assert algo.learner_group._learner.module["default_policy"].llm.dtype == torch.float32
    assert 0 < result["logprob_gap_max"] < 0.2
    twin = algo.env_runner.module.llm.state_dict()
    for name, tensor in algo.learner_group._learner.module["default_policy"].llm.state_dict().items():
        assert torch.equal(tensor.bfloat16(), twin[name]), name
    algo.stop()
