"""Learning rates: hand-computed factors, and what the optimisers really use."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from rllib_ragen.learner.schedule import LRSchedule, lr_factor
from tests.starpo.build import digits_config, largest_difference, make_learner, random_rows, update, weights


@pytest.mark.parametrize(
    ("schedule", "warmup", "decay", "factors"),
    [
        ("constant", 0, None, [1.0, 1.0, 1.0]),
        ("constant", 4, None, [0.25, 0.5, 0.75, 1.0, 1.0]),
        ("linear", 0, 4, [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]),
        ("linear", 2, 6, [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]),
        ("cosine", 0, 3, [1.0, 0.75, 0.25, 0.0, 0.0]),
        ("cosine", 1, 3, [1.0, 1.0, 0.5, 0.0]),
    ],
)
def test_hand_computed_factors(schedule: LRSchedule, warmup: int, decay: int | None, factors: list[float]) -> None:
    found = [lr_factor(k, schedule, warmup, decay) for k in range(len(factors))]
    assert found == pytest.approx(factors, abs=1e-12)


@pytest.mark.parametrize("decay", [None, 3, 2])
def test_a_fall_without_an_end_is_refused(decay: int | None) -> None:
    with pytest.raises(ValueError, match=r"learner\.decay_iterations: must be above warmup_iterations=3"):
        lr_factor(5, "cosine", 3, decay)


def test_an_unknown_schedule_names_the_allowed_ones() -> None:
    with pytest.raises(ValueError, match=r"learner\.lr_schedule.*'square'.*constant, linear, cosine"):
        lr_factor(5, "square", 0, 9)  # type: ignore[arg-type]


def test_both_learning_rates_follow_and_the_last_step_of_all_moves_nothing(model: Path) -> None:
    learner = make_learner(
        digits_config(model, estimator="gae", lr=1e-3, critic_lr=1e-2, lr_schedule="linear", decay_iterations=2)
    )
    rows = random_rows(3)
    assert update(learner, rows)["lr"] == pytest.approx(1e-3)
    assert update(learner, rows, num_epochs=3)["lr"] == pytest.approx(5e-4)
    rates = sorted(group["lr"] for _, _, o in learner.named_optimizers for group in o.param_groups)
    assert rates == pytest.approx([5e-4, 5e-3])
    before = weights(learner)
    assert update(learner, rows)["lr"] == 0.0
    assert largest_difference(before, weights(learner)) == 0.0


def test_the_first_adam_step_is_the_learning_rate_of_the_warm_up(model: Path) -> None:
    """Adam's first step is lr · sign(gradient) where the gradient is not tiny."""
    learner = make_learner(digits_config(model, lr=1e-3, warmup_iterations=4, weight_decay=0.0))
    before = weights(learner)
    update(learner, random_rows(3))
    moved = {name: tensor - before[name] for name, tensor in weights(learner).items()}
    assert max(float(t.abs().max()) for t in moved.values()) == pytest.approx(2.5e-4, rel=1e-2)
    assert math.isfinite(sum(float(torch.linalg.vector_norm(t)) for t in moved.values()))
