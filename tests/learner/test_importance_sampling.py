"""Truncated importance sampling in an update: against what the sampler says, and which weights are the old ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_ragen.learner.frozen_logprobs import score_rows
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.types import FloatArray, TokenRow
from tests.starpo.build import MODULE, digits_config, largest_difference, make_learner, random_rows, update, weights

SETTINGS: dict[str, Any] = {"entropy_coeff": 0.0, "adam_eps": 1e-3, "grad_clip": 100.0}


def fresh(model: Path, **settings: Any) -> StarPOLearner:
    return make_learner(digits_config(model, **SETTINGS, **settings))


def exact(learner: StarPOLearner, rows: list[TokenRow]) -> list[FloatArray]:
    """The learner's own log-probs."""
    return score_rows(rows, learner.module[MODULE], "logprobs", 4096, learner.device)


def sampled_by(learner: StarPOLearner, rows: list[TokenRow], shift: float = 0.0) -> list[TokenRow]:
    """Rows of a sampler whose log-probs are the learner's, all lower by `shift`."""
    logprobs = exact(learner, rows)
    return [
        replace(row, logprobs=(own - shift * row.mask).astype(np.float32))
        for row, own in zip(rows, logprobs, strict=True)
    ]


@pytest.mark.parametrize("plan", [{}, {"num_minibatches": 3}, {"num_minibatches": 2, "num_epochs": 2}])
def test_where_sampler_and_learner_agree_the_cap_changes_nothing(model: Path, plan: dict[str, int]) -> None:
    plain, capped = fresh(model), fresh(model, tis_cap=2.0)
    rows = sampled_by(plain, random_rows(6))
    for learner in (plain, capped):
        update(learner, rows, **plan)
    assert largest_difference(weights(plain), weights(capped)) < 1e-6


@pytest.mark.parametrize(("shift", "factor"), [(np.log(1.5), 1.5), (np.log(4.0), 2.0), (-np.log(2.0), 0.5)])
def test_the_policy_gradient_is_scaled_by_the_truncated_ratio(model: Path, shift: float, factor: float) -> None:
    """A sampler that is off by a constant: π_old/π_behaviour = e^shift everywhere, the clipped ratio stays 1."""
    gradients = []
    for cap, own_shift in ((None, 0.0), (2.0, shift)):
        learner = fresh(model, tis_cap=cap)
        report = update(learner, sampled_by(learner, random_rows(4), own_shift))
        assert report["clip_fraction"] == 0
        assert report["logprob_gap_mean"] == pytest.approx(abs(own_shift), abs=1e-5), "the gap is to the sampler"
        gradients.append({n: p.grad for n, p in learner.module[MODULE].named_parameters() if p.grad is not None})
    wanted = {name: factor * g for name, g in gradients[0].items()}
    size = max(float(g.abs().max()) for g in wanted.values())
    assert largest_difference(gradients[1], wanted) < 1e-4 * size


def test_old_log_probs_are_those_of_the_updates_beginning_in_every_step(model: Path) -> None:
    learner = fresh(model, tis_cap=2.0)
    rows = sampled_by(learner, random_rows(4), 0.3)
    before = exact(learner, rows)
    seen = []
    compute = learner.compute_loss_for_module

    def spy(**kwargs: Any) -> Any:
        seen.append(kwargs["batch"])
        return compute(**kwargs)

    learner.compute_loss_for_module = spy  # type: ignore[method-assign]
    update(learner, rows, num_epochs=3)
    order = sorted(range(4), key=lambda i: -rows[i].num_tokens)
    wanted = np.concatenate([before[i][rows[i].mask > 0] for i in order])
    assert len(seen) == 3
    for batch in seen:
        np.testing.assert_allclose(batch.old_logprobs.numpy(), wanted, atol=1e-5)
    seen.clear()
    update(learner, rows)
    assert seen[0].old_logprobs is None, "a single step needs no second pass: its own log-probs are the old ones"
