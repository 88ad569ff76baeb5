"""Remote runners and learners: the same numbers, nothing lost when processes die, versions that are true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import ray
import torch

from rllib_ragen.faults.exit_codes import WorkersLost
from rllib_ragen.learner.training_data import TokenTrainingData, balance
from rllib_ragen.models.weight_arrays import from_array
from rllib_ragen.rollout.specs import training_specs
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.rollouts import Rollouts
from tests.starpo.build import MODULE, digits_config, largest_difference, random_rows

pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.fixture(scope="module")
def remote(model: Path) -> Iterator[StarPO]:
    """Two runners, a local learner."""
    algo = digits_config(model).env_runners(num_env_runners=2).build_algo()
    yield algo
    algo.stop()


def runner_weights(algo: StarPO) -> list[tuple[int, dict[str, torch.Tensor]]]:
    """(policy version, weights) of every runner's engine."""
    found: list[tuple[int, dict[str, torch.Tensor]]] = algo.env_runner_group.foreach_env_runner(
        lambda runner: (runner.engine.version, {n: t.clone() for n, t in runner.engine.model.state_dict().items()}),
        local_env_runner=False,
    )
    return found


def test_S2_every_runner_has_the_learners_weights_when_an_iteration_ends(remote: StarPO) -> None:
    for _ in range(2):
        remote.train()
        own = remote.learner_group._learner.module[MODULE].llm.state_dict()
        for version, found in runner_weights(remote):
            assert version == remote.policy_version
            assert largest_difference(found, dict(own)) == 0.0


def test_two_runners_sample_what_one_process_samples(model: Path, remote: StarPO) -> None:
    local = digits_config(model).build_algo()
    local.learner_group._learner.module[MODULE].llm.load_state_dict(
        remote.learner_group._learner.module[MODULE].llm.state_dict()
    )
    specs = training_specs(99, 0, 4, 4)
    ours, theirs = (algo._rollouts.play(specs, count=False).trajectories for algo in (local, remote))
    assert [t.group_id for t in theirs] == [spec.group_id for spec in specs]
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.token_ids(), other.token_ids())
        np.testing.assert_allclose(one.behaviour_logprobs(), other.behaviour_logprobs(), atol=1e-5)
    local.stop()


def test_plain_rllib_sampling_works_on_remote_runners(remote: StarPO) -> None:
    episodes = remote.env_runner_group.foreach_env_runner(
        lambda runner: runner.sample(num_episodes=3), local_env_runner=False
    )
    assert [len(own) for own in episodes] == [3, 3]
    assert all(len(episode) == 2 for own in episodes for episode in own)


def test_L2_lost_rollouts_are_played_again_and_the_new_runner_has_current_weights(model: Path, tmp_path: Path) -> None:
    # The only runner dies: for a while nobody is there to sample.
    config = digits_config(model, env={"die_once": str(tmp_path / "died")}).env_runners(num_env_runners=1)
    algo = config.build_algo()
    result = algo.train()
    assert (tmp_path / "died").exists()
    assert (result["starpo"]["num_failed"], len(algo.last_trajectories())) == (0, 16)
    assert (result["starpo"]["num_lost_runners"], result["starpo"]["num_replayed"]) == (1, 16)
    algo.train()
    own = algo.learner_group._learner.module[MODULE].llm.state_dict()
    runners = runner_weights(algo)
    assert runners
    for version, found in runners:
        assert version == 2
        assert largest_difference(found, dict(own)) == 0.0
    algo.stop()


@pytest.mark.slow
def test_killing_every_runner_costs_time_only(model: Path) -> None:
    algo = digits_config(model).env_runners(num_env_runners=1).build_algo()
    algo.train()
    for actor in algo.env_runner_group._worker_manager.actors().values():
        ray.kill(actor, no_restart=False)
    assert algo.train()["starpo"]["policy_version"] == 2
    assert len(algo.last_trajectories()) == 16
    algo.stop()


def test_a_programming_error_while_sampling_stops_the_run_with_its_reason(remote: StarPO) -> None:
    def spoil(runner: Any) -> None:
        runner.chat = None

    actor_ids = remote.env_runner_group.healthy_env_runner_ids()
    remote.env_runner_group.foreach_env_runner(spoil, local_env_runner=False)
    with pytest.raises(RuntimeError, match=r"sampling failed on env runner .*AttributeError"):
        remote._rollouts.play(training_specs(0, 0, 2, 2), count=False)
    assert remote.env_runner_group.healthy_env_runner_ids() == actor_ids, "nobody had to die for it"


def test_sampling_ends_when_its_time_is_up(remote: StarPO) -> None:
    """The last test with these runners: those that are late are killed."""
    config = remote.config.copy(copy_frozen=False).env_runners(sample_timeout_s=1e-3)
    late = Rollouts(config, remote.env_runner_group, remote.learner_group)
    with pytest.raises(WorkersLost, match=r"rollout\.timeout_s: 4 of 4 episodes are missing after 0\.001 s"):
        late.play(training_specs(0, 0, 2, 2), count=False)


@pytest.mark.parametrize(
    ("sharding", "num_env_runners"), [pytest.param("ddp", 1, marks=pytest.mark.slow), ("fsdp2", 0)]
)
def test_two_learners_go_on_from_one_ones_checkpoint_and_one_from_theirs(
    model: Path, tmp_path: Path, sharding: str, num_env_runners: int
) -> None:
    """Sampling, the critic, measuring thoughts, updates, publishing and checkpoints, all with two learners."""
    settings: dict[str, Any] = {"estimator": "gae", "group_size": 2, "kl_coeff": 0.01, "num_minibatches": 2}
    one = digits_config(model, **settings).build_algo()
    one.train()
    one.save_checkpoint(str(tmp_path / "one"))
    expected = [one.train()["starpo"] for _ in range(2)]
    state = one.learner_group.get_state()["learner"]
    config = digits_config(model, **settings, sharding=sharding).learners(num_learners=2)
    pair = config.env_runners(num_env_runners=num_env_runners).build_algo()
    pair.load_checkpoint(str(tmp_path / "one"))
    found = [pair.train()["starpo"] for _ in range(2)]
    for theirs, ours in zip(found, expected, strict=True):
        for name in ("return_mean", "num_trained_tokens", "policy_loss", "value_loss", "kl", "grad_norm"):
            # The second iteration's samples are those of the first one's weights, as they were published.
            assert theirs[name] == pytest.approx(ours[name], rel=1e-3, abs=1e-6), name
    pair.save_checkpoint(str(tmp_path / "pair"))
    of_pair = pair.learner_group.get_state()["learner"]
    pair.stop()
    # Adam's steps are of one size, however small a gradient is.
    own, theirs = (tensors_of(found["rl_module"][MODULE]) for found in (state, of_pair))
    assert largest_difference(own, theirs) < 1e-4
    last = StarPO.from_checkpoint(str(tmp_path / "pair"), config=digits_config(model, **settings))
    assert last.iteration == 3
    kept = last.learner_group.get_state()["learner"]
    assert largest_difference(tensors_of(kept["rl_module"][MODULE]), theirs) == 0.0
    for name, entry in of_pair["optimizer"].items():
        assert largest_difference(tensors_of(entry["state"]), tensors_of(kept["optimizer"][name]["state"])) == 0.0
    assert last.train()["starpo"]["policy_version"] == one.train()["starpo"]["policy_version"] == 4
    last.stop()
    one.stop()


def tensors_of(state: Any) -> dict[str, torch.Tensor]:
    """A state as tensors, by name."""
    return {name: from_array(array).clone() for name, array in state.items()}


def test_shares_hold_every_row_once_and_are_balanced_by_tokens() -> None:
    rows = random_rows(40)
    shares = balance(rows, 3)
    assert sorted(id(row) for share in shares for row in share) == sorted(id(row) for row in rows)
    loads = [sum(row.num_tokens for row in share) for share in shares]
    assert max(loads) - min(loads) <= max(row.num_tokens for row in rows)


def test_a_plan_visits_every_row_once_per_epoch_whoever_learns() -> None:
    rows = random_rows(10)
    plan = TokenTrainingData.plan(rows, num_minibatches=3, num_epochs=2, rng=np.random.default_rng(1))
    assert [len(step.rows) for step in plan.steps] == [4, 3, 3, 4, 3, 3]
    for epoch in (plan.steps[:3], plan.steps[3:]):
        assert sorted(row.index for step in epoch for row in step.rows) == list(range(len(rows)))
    shards = [data for data, _ in plan.shard(2)]
    assert all(len(shard.steps) == len(plan.steps) for shard in shards)
    for k, step in enumerate(plan.steps):
        assert sum(len(shard.steps[k].rows) for shard in shards) == len(step.rows)
        assert all(shard.steps[k].totals == step.totals for shard in shards)


@pytest.mark.vllm
@pytest.mark.parametrize("transfer", ["object_store", "broadcast"])
def test_S1_vllm_samples_with_the_learners_weights_and_log_probs(
    model: Path, transfer: Literal["object_store", "broadcast"]
) -> None:
    config = (
        digits_config(model, lr=1e-3)
        .env_runners(num_env_runners=1)
        .rollout(engine="vllm", max_concurrent=16, temperature=0.7)
        .vllm(weight_transfer=transfer)
    )
    algo = config.build_algo()
    for version in (1, 2, 3):
        result = algo.train()["starpo"]
        # Stale weights would show from the second iteration on: an update at this learning rate moves log-probs by 0.1.
        assert result["logprob_gap_max"] < 1e-4
        assert abs(result["logprob_gap_k3"]) < 1e-8
        assert result["policy_version"] == version
    assert {turn.policy_version for t in algo.last_trajectories() for turn in t.turns} == {2}
    algo.stop()


@pytest.mark.vllm
@pytest.mark.slow
def test_L2_a_runner_that_dies_between_broadcasts_comes_back_with_current_weights(model: Path) -> None:
    config = (
        digits_config(model, lr=1e-3)
        .env_runners(num_env_runners=2)
        .rollout(engine="vllm", max_concurrent=16)
        .vllm(weight_transfer="broadcast")
    )
    algo = config.build_algo()
    for version in (1, 2, 3):
        if version == 2:
            ray.kill(next(iter(algo.env_runner_group._worker_manager.actors().values())), no_restart=False)
        result = algo.train()["starpo"]
        assert (result["policy_version"], result["num_failed"]) == (version, 0)
        assert result["logprob_gap_max"] < 1e-4
    algo.stop()
