"""Gradients by reward std: they add up to the learner's own, on any number of learners, and disturb nothing."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rllib_ragen.commands.gradients import main, parse, plan
from rllib_ragen.config.load import save_config
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.diagnostics.gradient_buckets import (
    TERMS,
    Bucket,
    Gradients,
    gradient_metric_names,
    gradient_metrics,
    in_buckets,
)
from rllib_ragen.learner.gradient_probe import _norms_on_learner, _Part, _shares, measure_gradients
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.losses.aggregate import row_scales
from rllib_ragen.learner.remote_scores import unlabelled_row
from rllib_ragen.learner.training_data import TokenTrainingData
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.config import StarPOConfig
from tests.report.build import REPLY, played
from tests.run.test_run import command
from tests.starpo.build import (
    MODULE,
    digits_config,
    largest_difference,
    make_learner,
    metrics_of,
    random_rows,
    update,
    weights,
)

pytestmark = pytest.mark.usefixtures("local_ray")
Vector = torch.Tensor


def gradient_of(learner: StarPOLearner) -> Vector:
    """And clears it."""
    found = []
    for name, parameter in learner.module[MODULE].named_parameters():
        if not name.startswith("value_head"):
            found.append(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone())
        parameter.grad = None
    return torch.cat([part.flatten() for part in found]).double()


def moments(learner: StarPOLearner) -> dict[str, torch.Tensor]:
    return {
        f"{name}/{k}/{key}": value.clone()
        for name, _, optimizer in learner.named_optimizers
        for k, state in enumerate(optimizer.state.values())
        for key, value in state.items()
    }


def test_groups_are_sorted_by_spread_and_cut_into_buckets_of_equal_size() -> None:
    reward_stds = {"a": 0.5, "b": 0.0, "c": 2.0, "d": 0.0, "e": 1.0}
    assert in_buckets(reward_stds, 2) == [["b", "d", "a"], ["e", "c"]]
    assert in_buckets(reward_stds, 5) == [["b"], ["d"], ["a"], ["e"], ["c"]]
    assert in_buckets(reward_stds, 9) == in_buckets(reward_stds, 5), "a bucket without a group is none"
    assert in_buckets({}, 6) == []


def test_metrics_are_norms_as_they_count_in_the_loss() -> None:
    bucket = Bucket(0.5, 0.0, 1.0, 2, 4, 10, 1.0, {"task": 3.0, "entropy": 20.0, "kl": float("nan")})
    found = Gradients([bucket], bucket.norms, {"task": 1.0, "entropy": 0.01, "kl": 0.0})
    metrics = gradient_metrics(found)
    assert list(metrics) == gradient_metric_names()
    assert (metrics["bucket_1_reward_std"], metrics["bucket_1_task_norm"]) == (0.5, 3.0)
    assert metrics["bucket_1_entropy_norm"] == pytest.approx(0.2)
    assert math.isnan(metrics["bucket_1_kl_norm"]) and math.isnan(metrics["bucket_2_task_norm"])
    (told,) = found.to_json()["buckets"]
    assert told["norms_over_tokens"] == {"task": 0.3, "entropy": 2.0, "kl": None}
    assert told["norms_over_trajectories"]["task"] == 0.75


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"])
def test_the_buckets_terms_add_up_to_the_gradient_that_is_trained_with(model: Path, aggregation: str) -> None:
    """Σ_buckets share · (task − c_H · entropy + c_KL · KL) is what an optimiser step would find in `.grad`."""
    config = digits_config(model, entropy_coeff=0.05, kl_coeff=0.2, aggregation=aggregation, microbatch_tokens=128)
    learner = make_learner(config)
    update(learner, random_rows(6, seed=1))  # away from the reference: at it the KL term has no gradient
    rows = random_rows(9)
    (step,) = TokenTrainingData.plan(rows, num_minibatches=1, num_epochs=1, rng=np.random.default_rng(0)).steps
    totals = step.totals[MODULE]
    scales = row_scales(
        [row.num_trained_tokens for row in rows],
        aggregation,  # type: ignore[arg-type]
        total_tokens=totals.tokens,
        total_rows=totals.rows,
        norm_tokens=256,
    )
    rows = step.rows
    part = _Part(learner, MODULE, rows)
    learner._frozen.reference.update({row.index: own for row, own in zip(part._rows, part._reference, strict=True)})
    gradient_of(learner)
    learner._accumulate(MODULE, rows, scales)
    wanted = gradient_of(learner)
    parts = [rows[:2], rows[2:5], rows[5:]]
    shares = _shares(parts, learner.settings)
    assert sum(shares) == pytest.approx(1)
    total, norms = torch.zeros_like(wanted), []
    for own_rows, share in zip(parts, shares, strict=True):
        found: dict[str, Vector] = {}
        for term in TERMS:
            _Part(learner, MODULE, own_rows).backward(term)
            found[term] = gradient_of(learner)
        total += share * (found["task"] - 0.05 * found["entropy"] + 0.2 * found["kl"])
        norms.append({term: float(gradient.norm()) for term, gradient in found.items()})
    assert float(wanted.norm()) > 0.01
    torch.testing.assert_close(total, wanted, rtol=0, atol=1e-5 * float(wanted.norm()))
    by_bucket, whole = _norms_on_learner(learner, MODULE, parts, shares)
    for one, other in zip(by_bucket, norms, strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    assert all(0 < whole[term] < sum(s * n[term] for s, n in zip(shares, norms, strict=True)) for term in TERMS)


@pytest.mark.slow
def test_learners_share_the_work_and_find_the_same(model: Path) -> None:
    trajectories = [
        played(str(k // 2), [REPLY] * (1 + k % 3), reward) for k, reward in enumerate([1.0, 1.0, 0, 3, 2, 3, 0, 2])
    ]
    rows = [
        replace(unlabelled_row(one), advantages=unlabelled_row(one).mask * (k - 3))
        for k, one in enumerate(trajectories)
    ]
    found = []
    for num_learners in (0, 2):
        # Sharded: every pass takes all learners, and they have different numbers of rows.
        sharding = "fsdp2" if num_learners else "ddp"
        config = digits_config(model, kl_coeff=0.1, sharding=sharding).learners(num_learners=num_learners)
        algo: StarPO = config.build_algo()
        settings = config.learner_section()
        found.append(measure_gradients(algo.learner_group, MODULE, trajectories, rows, settings, num_buckets=3))
        algo.stop()
    one, two = found
    assert [b.groups for b in one.buckets] == [2, 1, 1]
    # Every turn brings the reward, so the groups' returns are (1, 2), (0, 3), (4, 9) and (0, 4).
    squares = [(b.lowest**2, b.highest**2) for b in one.buckets]
    np.testing.assert_allclose(squares, [(0.5, 4.5), (8, 8), (12.5, 12.5)])
    assert one.norms == pytest.approx(two.norms, rel=1e-4)
    for left, right in zip(one.buckets, two.buckets, strict=True):
        assert left.norms == pytest.approx(right.norms, rel=1e-4)
        assert (left.share, left.tokens) == (right.share, right.tokens)


@pytest.mark.parametrize("more", [{"estimator": "gae"}, {"kl_coeff": 0.1, "filter": "top_p", "num_minibatches": 2}])
def test_measuring_takes_no_step_and_the_run_is_the_same_to_the_bit(model: Path, more: dict[str, Any]) -> None:
    runs = []
    for interval in (0, 2):
        config = digits_config(model, **more).diagnostics(gradients_interval=interval, diagnostics_interval=0)
        algo: StarPO = config.build_algo()
        torch.manual_seed(3)
        rows = [metrics_of(algo.train()) for _ in range(3)]
        learner = algo.learner_group._learner
        runs.append((rows, weights(learner), moments(learner), {"rng": torch.get_rng_state().float()}))
        algo.stop()
    never, sometimes = runs
    names = set(gradient_metric_names())
    for plain, measured in zip(never[0], sometimes[0], strict=True):
        assert names <= plain.keys() & measured.keys()
        assert {k: v for k, v in plain.items() if k not in names} == pytest.approx(
            {k: v for k, v in measured.items() if k not in names}, abs=0, rel=0, nan_ok=True
        )
    for plain_tensors, tensors in zip(never[1:], sometimes[1:], strict=True):
        assert isinstance(plain_tensors, dict) and isinstance(tensors, dict)
        assert len(tensors) and largest_difference(plain_tensors, tensors) == 0.0
    measured_at = [[math.isfinite(row["bucket_1_task_norm"]) for row in rows] for rows, *_ in runs]
    assert measured_at == [[False] * 3, [True, False, True]]
    assert all(math.isfinite(row["bucket_4_kl_norm"]) == ("kl_coeff" in more) for row in sometimes[0][::2])


def test_a_measurement_between_two_iterations_moves_nothing(model: Path) -> None:
    algo: StarPO = digits_config(model).build_algo()
    algo.train()
    learner, progress = algo.learner_group._learner, str(algo._counters)
    before = (weights(learner), moments(learner), {"rng": torch.get_rng_state().float()})
    first, again = algo.gradients(2), algo.gradients(2)
    after = (weights(learner), moments(learner), {"rng": torch.get_rng_state().float()})
    assert first.to_json() == again.to_json() and str(algo._counters) == progress
    assert [largest_difference(left, right) for left, right in zip(before, after, strict=True)] == [0, 0, 0]
    algo.stop()


def test_the_command_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    config = StarPOConfig().environment("sokoban").training(num_groups=4, group_size=2, torch_threads=1)
    algo: StarPO = config.build_algo()
    algo.train()
    run = config.to_run_config()
    run.rollout.engine = "hf"
    created = RunFolder.create(run.model_copy(update={"results_dir": tmp_path}), "run")
    created.save_checkpoint(1, lambda path: algo.save_checkpoint(str(path)), keep=0)
    algo.stop()
    folder = created.path
    code, output = command(str(folder), "--num-groups", "6", "--buckets", "3", module="gradients")
    assert code == 0, output
    assert "sokoban, iteration 1, 6 groups of 2; norms of each bucket's mean gradient:" in output
    tree = json.loads((folder / "gradients_iteration_000001.json").read_text())
    assert [bucket["groups"] for bucket in tree["buckets"]] == [2, 2, 2]
    assert tree["norms"]["kl"] > 0, "the start of the run is the reference, though the run pulls towards nothing"
    assert tree["coefficients"] == {"task": 1.0, "entropy": 0.001, "kl": 0.0}
    for k, bucket in enumerate(tree["buckets"], start=1):
        assert re.search(rf"^ +{k} .* {bucket['norms']['task']:.3g} ", output, re.MULTILINE)


def test_a_checkpoint_is_named_by_its_folder(tmp_path: Path) -> None:
    for k in (1, 2):
        (tmp_path / "run" / "checkpoints" / f"iteration_{k:06}").mkdir(parents=True)
    save_config(RunConfig(), tmp_path / "run" / "config.yaml")
    first = tmp_path / "run" / "checkpoints" / "iteration_000001"
    assert plan(parse([str(tmp_path / "run")]))[1].iteration == 2
    _, saved, out = plan(parse([str(first)]))
    assert (saved.iteration, out) == (1, tmp_path / "run" / "gradients_iteration_000001.json")


def test_bad_input_of_the_command_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "is neither a run folder nor one of a run's checkpoints" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--buckets", "0"])
    assert "must be an integer ≥ 1 and ≤ 1000000000, got '0'" in capsys.readouterr().err
