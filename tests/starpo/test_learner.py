"""The update: exact accumulation, the mask's reach, non-finite gradients, the critic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.microbatches import pad_rows, plan_microbatches
from rllib_ragen.types import TokenRow
from tests.starpo.build import (
    MODULE,
    digits_config,
    largest_difference,
    make_learner,
    random_rows,
    update,
    weights,
)


def fresh(model: Path, **training: Any) -> StarPOLearner:
    return make_learner(digits_config(model, **training))


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_an_update_does_not_depend_on_the_micro_batch_size(model: Path, aggregation: str) -> None:
    rows = random_rows(10)
    learners = [
        fresh(model, microbatch_tokens=tokens, aggregation=aggregation, estimator="gae", grad_clip=100.0, adam_eps=1e-3)
        for tokens in (64, 10_000)
    ]
    reports = [update(learner, rows) for learner in learners]
    assert reports[0]["policy_loss"] == pytest.approx(reports[1]["policy_loss"], rel=1e-5)
    gradients = [
        {name: p.grad for name, p in learner.module[MODULE].named_parameters() if p.grad is not None}
        for learner in learners
    ]
    scale = max(float(gradient.abs().max()) for gradient in gradients[0].values())
    assert largest_difference(gradients[0], gradients[1]) < 2e-6 * max(1.0, scale)
    assert largest_difference(weights(learners[0]), weights(learners[1])) < 1e-5


def test_the_loss_is_the_hand_computed_one(model: Path) -> None:
    learner = fresh(model, entropy_coeff=0.0)
    row = random_rows(1)[0]
    module = learner.module[MODULE]
    with torch.no_grad():
        logits = module.llm(torch.from_numpy(row.token_ids.astype(np.int64))[None]).logits[0, :-1]
    logp = logits.log_softmax(-1)[np.arange(row.num_tokens - 1), row.token_ids[1:]].numpy()
    ratio = np.exp(np.clip(logp - row.logprobs[1:], -20, 20))
    free, bounded = -ratio * row.advantages[1:], -np.clip(ratio, 0.8, 1.28) * row.advantages[1:]
    loss = np.maximum(free, bounded)
    loss = np.where(row.advantages[1:] < 0, np.minimum(loss, -3.0 * row.advantages[1:]), loss)
    wanted = row.weight * (loss * row.mask[1:]).sum() / row.mask.sum()
    assert update(learner, [row])["policy_loss"] == pytest.approx(wanted, rel=1e-4)


def gradient(learner: StarPOLearner, rows: list[TokenRow]) -> dict[str, torch.Tensor]:
    update(learner, rows)
    return {n: p.grad.clone() for n, p in learner.module[MODULE].named_parameters() if p.grad is not None}


def test_T4_advantages_on_prompt_tokens_change_nothing(model: Path) -> None:
    rows = random_rows(3)
    fields: Any = ("advantages", "returns", "old_values", "logprobs")
    poisoned: list[TokenRow] = []
    for row in rows:
        changes: dict[str, Any] = {n: np.where(row.mask > 0, getattr(row, n), np.float32(1e6)) for n in fields}
        poisoned.append(replace(row, **changes))
    settings: dict[str, Any] = {"estimator": "gae"}
    clean, dirty = gradient(fresh(model, **settings), rows), gradient(fresh(model, **settings), poisoned)
    assert largest_difference(clean, dirty) == 0.0


def test_T5_every_sampled_token_of_a_cut_off_reply_is_trained(model: Path) -> None:
    row = random_rows(1)[0]
    assert row.mask[-1] == 1, "the row ends in the middle of a reply"
    batch = pad_rows([row], [1.0])
    assert batch.trained.sum() == row.num_trained_tokens
    changed = replace(row, advantages=row.advantages.copy())
    changed.advantages[-1] += 1.0
    assert largest_difference(gradient(fresh(model), [row]), gradient(fresh(model), [changed])) > 0


def test_zero_advantages_without_entropy_bonus_give_a_zero_gradient(model: Path) -> None:
    rows = [replace(row, advantages=np.zeros_like(row.advantages)) for row in random_rows(3)]
    found = gradient(fresh(model, entropy_coeff=0.0), rows)
    assert all(torch.count_nonzero(g) == 0 for g in found.values())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_N1_a_non_finite_gradient_skips_the_step_and_is_counted(model: Path, bad: float) -> None:
    learner = fresh(model)
    before = weights(learner)
    rows = random_rows(4)
    rows[2].advantages[rows[2].mask > 0] = bad
    report = update(learner, rows)
    assert report["skipped_steps"] == 1
    assert largest_difference(before, weights(learner)) == 0.0
    assert update(learner, random_rows(4))["skipped_steps"] == 0
    assert largest_difference(before, weights(learner)) > 0


def test_only_the_critic_moves_on_value_errors(model: Path) -> None:
    learner = fresh(model, estimator="gae", entropy_coeff=0.0, weight_decay=0.0)
    rows = [replace(row, advantages=np.zeros_like(row.advantages)) for row in random_rows(4)]
    before = weights(learner)
    assert update(learner, rows)["value_loss"] > 0
    after = weights(learner)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved and all(name.startswith("value_head.") for name in moved)


def test_the_critic_learns_returns_that_depend_on_the_text(model: Path) -> None:
    learner = fresh(model, estimator="gae", critic_lr=1e-2, value_clip=100.0)
    rows = random_rows(6)
    losses = [update(learner, rows)["value_loss"] for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]


def test_critic_values_sit_on_the_token_that_is_sampled_next(model: Path) -> None:
    learner = fresh(model, estimator="gae", microbatch_tokens=64, lr=1e-2)
    rows = random_rows(5)
    update(learner, rows)
    module = learner.module[MODULE]
    for row, values in zip(rows, learner.critic_values(rows), strict=True):
        assert values.shape == (row.num_tokens,)
        assert np.all(values[row.mask == 0] == 0)
        with torch.no_grad():
            ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
            hidden = module.llm.model(ids).last_hidden_state[0]
            states = module.value_head(hidden).numpy()
        where = np.flatnonzero(row.mask)
        np.testing.assert_allclose(values[where], states[where - 1], atol=1e-5)


def test_metrics_are_means_over_trained_tokens(model: Path) -> None:
    rows = random_rows(5)
    report = update(fresh(model), rows, num_minibatches=2, num_epochs=2)
    assert report["num_trained_tokens"] == 2 * sum(row.num_trained_tokens for row in rows)
    assert 0 <= report["clip_fraction"] <= 1
    assert 0 < report["entropy"] < np.log(400)
    assert report["logprob_gap_max"] >= report["logprob_gap_mean"] > 0


def test_microbatches_hold_every_row_once_and_keep_to_the_budget() -> None:
    lengths = [int(n) for n in np.random.default_rng(0).integers(1, 100, 200)]
    plan = plan_microbatches(lengths, 256)
    assert sorted(i for batch in plan for i in batch) == list(range(200))
    assert all(len(batch) * max(lengths[i] for i in batch) <= 256 for batch in plan)
    assert plan_microbatches([1000, 5], 256) == [[0], [1]]


def test_rows_that_cannot_move_a_weight_are_left_out_and_change_nothing(model: Path) -> None:
    rows = random_rows(6)
    rows[1:3] = [replace(row, advantages=np.zeros_like(row.advantages)) for row in rows[1:3]]
    lean, full = fresh(model, entropy_coeff=0.0), fresh(model, entropy_coeff=1e-30)
    reports = [update(learner, rows) for learner in (lean, full)]
    assert reports[0]["num_trained_tokens"] < reports[1]["num_trained_tokens"]
    assert reports[0]["policy_loss"] == pytest.approx(reports[1]["policy_loss"], rel=1e-6)
    assert largest_difference(weights(lean), weights(full)) < 1e-6
