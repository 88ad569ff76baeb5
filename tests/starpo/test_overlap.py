"""Rollouts beside learning: one step off and never more, nothing lost, resumed exactly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import torch

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.background import Background
from rllib_ragen.starpo.config import StarPOConfig
from tests.starpo.build import MODULE, digits_config, metrics_of

pytestmark = pytest.mark.usefixtures("local_ray")


def overlapped(model: Path, overlap: Literal["off", "one_step_off"] = "one_step_off") -> StarPOConfig:
    config = digits_config(model).rollout(overlap=overlap)
    config.env_runners(num_env_runners=2)
    return config


def versions(algo: StarPO) -> set[int]:
    return {turn.policy_version for trajectory in algo.last_trajectories() for turn in trajectory.turns}


def weights(algo: StarPO) -> dict[str, torch.Tensor]:
    return {n: t.clone() for n, t in algo.learner_group._learner.module[MODULE].llm.state_dict().items()}


@pytest.fixture
def algo(model: Path) -> Iterator[StarPO]:
    algo = overlapped(model).build_algo()
    yield algo
    algo.stop()


def test_S2_every_batch_is_of_one_version_that_is_one_update_old(algo: StarPO) -> None:
    seen, lags = [], []
    for _ in range(4):
        lags.append(algo.train()["starpo"]["policy_lag"])
        seen.append(versions(algo))
    assert seen == [{0}, {0}, {1}, {2}]
    assert lags == [0, 1, 1, 1]
    groups = {trajectory.group_id for trajectory in algo._ahead.trajectories} if algo._ahead else set()
    assert len(groups) == 4 and not groups & {t.group_id for t in algo.last_trajectories()}


def test_a_first_iteration_learns_what_it_would_learn_without_overlap(model: Path, algo: StarPO) -> None:
    plain = overlapped(model, "off").build_algo()
    assert metrics_of(plain.train()).items() <= metrics_of(algo.train()).items()
    mine, theirs = weights(algo), weights(plain)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    plain.stop()


def test_R1_a_resumed_run_learns_from_the_batch_that_was_sampled_ahead(
    model: Path, algo: StarPO, tmp_path: Path
) -> None:
    for _ in range(2):
        algo.train()
    algo.save_checkpoint(str(tmp_path))
    expected = [metrics_of(algo.train()) for _ in range(2)]
    again = overlapped(model).build_algo()
    again.load_checkpoint(str(tmp_path))
    assert [metrics_of(again.train()) for _ in range(2)] == expected
    mine, theirs = weights(again), weights(algo)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    again.stop()


def test_runners_that_die_while_the_learner_works_get_the_weights_of_their_batch(model: Path, tmp_path: Path) -> None:
    config = digits_config(model, env={"die_once": str(tmp_path / "died")}).env_runners(num_env_runners=1)
    algo = config.rollout(overlap="one_step_off").build_algo()
    for expected in ({0}, {0}, {1}):
        algo.train()
        assert versions(algo) == expected
        assert len(algo.last_trajectories()) == 16
    algo.stop()


def test_overlap_without_runners_is_refused(model: Path) -> None:
    with pytest.raises(ConfigError, match=r"rollout\.overlap=one_step_off.*allowed: ≥ 1"):
        digits_config(model).rollout(overlap="one_step_off").validate()


def test_what_the_background_raises_is_raised_where_it_is_wanted() -> None:
    def fail() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        Background(fail).result()
    assert Background(lambda: 3).result() == 3
