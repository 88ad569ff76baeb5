"""The information diagnostics inside real training: right numbers, at the right time, disturbing nothing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragen_envs.seeds import Stream
from rllib_ragen.diagnostics.information_probe import probe_metric_names
from rllib_ragen.diagnostics.thoughts import first_turns
from rllib_ragen.learner.learner_calls import on_every_learner
from rllib_ragen.learner.thought_scorer import score_on_learners
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.config import StarPOConfig
from tests.starpo.build import largest_difference, metrics_of, weights

pytestmark = pytest.mark.usefixtures("local_ray")


def sokoban(interval: int = 1, num_learners: int = 0, sharding: str = "ddp", **training: Any) -> StarPO:
    """The embedded model on Sokoban, 4 groups of 2."""
    config = StarPOConfig().environment("sokoban").learners(num_learners=num_learners).training(sharding=sharding)
    config.training(**{"num_groups": 4, "group_size": 2, "torch_threads": 1, "num_minibatches": 1, **training})
    config.diagnostics(diagnostics_interval=interval, diagnostics_num_prompts=6)
    algo: StarPO = config.build_algo()
    return algo


def test_own_prompts_are_scored_as_the_sampler_sampled() -> None:
    algo = sokoban()
    result = algo.train()["starpo"]
    sample = first_turns(
        algo.last_trajectories(), 6, algo.config.chat_format().reply_text, [Stream.PROBE, algo.config.seed, 0, 0]
    )
    sampled = []
    for thought, column in zip(sample.thoughts, sample.own, strict=True):
        for trajectory in algo.last_trajectories():
            turn = trajectory.turns[0]
            stream = np.concatenate([turn.prompt_ids, turn.reply_ids])
            wanted = np.concatenate([sample.prompts[column], thought])
            if np.array_equal(stream[: len(wanted)], wanted):
                start = len(sample.prompts[column]) - len(turn.prompt_ids)
                sampled.append(float(turn.logprobs[start : start + len(thought)].astype(np.float64).sum()))
                break
    assert result["first_turn_num_thoughts"] == len(sampled) == 6
    assert result["first_turn_conditional_entropy_seq"] == pytest.approx(-np.mean(sampled), abs=1e-3)
    assert result["first_turn_num_prompts"] == 4
    assert 0 < result["first_turn_mutual_information_seq"] <= math.log(4) + 1e-6
    algo.stop()


def test_measuring_changes_nothing_and_happens_when_it_is_due() -> None:
    runs = []
    for interval in (0, 2):
        algo = sokoban(interval)
        runs.append(([metrics_of(algo.train()) for _ in range(3)], weights(algo.learner_group._learner)))
        algo.stop()
    names = set(probe_metric_names())
    for never, sometimes in zip(runs[0][0], runs[1][0], strict=True):
        assert names <= never.keys() & sometimes.keys()
        assert {k: v for k, v in never.items() if k not in names} == {
            k: v for k, v in sometimes.items() if k not in names
        }
    assert largest_difference(runs[0][1], runs[1][1]) == 0.0
    measured = [[math.isfinite(row["any_turn_conditional_entropy_token"]) for row in rows] for rows, _ in runs]
    assert measured == [[False] * 3, [True, False, True]]


def test_a_resumed_run_measures_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    whole = sokoban()
    whole.train()
    whole.save_checkpoint(str(tmp_path))
    wanted = metrics_of(whole.train())
    whole.stop()
    resumed = sokoban()
    resumed.load_checkpoint(str(tmp_path))
    assert metrics_of(resumed.train()) == wanted
    resumed.stop()


def test_several_learners_share_the_prompts_and_find_the_same() -> None:
    # Sharded: every pass takes all learners, and of three prompts one has two and the other one.
    algo = sokoban(num_learners=2, sharding="fsdp2")
    trajectories = algo._play_batch().trajectories
    sample = first_turns(trajectories, 8, algo.config.chat_format().reply_text, [0])
    assert len(sample.prompts) == 4
    shared = score_on_learners(algo.learner_group, "default_policy", sample.prompts[:3], sample.thoughts)
    counted = on_every_learner(algo.learner_group, lambda learner: learner.index)
    algo.stop()
    alone = sokoban()
    single = score_on_learners(alone.learner_group, "default_policy", sample.prompts[:3], sample.thoughts)
    alone.stop()
    assert sorted(counted) == [0, 1]
    assert shared.shape == (len(sample.thoughts), 3)
    np.testing.assert_allclose(shared, single, atol=1e-4)
