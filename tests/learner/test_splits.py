"""The result of an update depends on the rows alone: not on micro-batches, their order, or the number of learners."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.training_data import TokenTrainingData
from rllib_ragen.models.wire import from_wire
from rllib_ragen.types import TokenRow
from tests.starpo.build import MODULE, digits_config, largest_difference, make_learner, random_rows, update, weights

SETTINGS: dict[str, dict[str, Any]] = {
    "token-mean": {},
    "sequence": {"loss": "sequence", "aggregation": "seq-mean-token-mean", "clip_low": 3e-2, "clip_high": 4e-2},
    "constant length, k3": {"aggregation": "seq-mean-token-sum-norm", "norm_tokens": 50, "kl_coeff": 0.1},
    "seq-mean-token-sum, k2": {"aggregation": "seq-mean-token-sum", "kl_coeff": 0.1, "kl_estimator": "k2"},
    "tis": {"tis_cap": 1.5},
}
# Adam divides by the gradient's size, so a gradient near 0 would turn rounding into a full step: hence its epsilon.
COMMON: dict[str, Any] = {"estimator": "gae", "lr": 1e-4, "critic_lr": 1e-4, "adam_eps": 1e-3, "grad_clip": 100.0}
PLAN: dict[str, Any] = {"num_minibatches": 5, "num_epochs": 2}
"""Of 7 rows: most steps have a single row, and so one of two learners none."""


def gradients(learner: StarPOLearner) -> dict[str, torch.Tensor]:
    """Of the last optimiser step."""
    return {name: p.grad.clone() for name, p in learner.module[MODULE].named_parameters() if p.grad is not None}


def drifted(learner: StarPOLearner) -> StarPOLearner:
    """With weights that are not the reference's any more."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in learner.module[MODULE].llm.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    return learner


@pytest.mark.parametrize("name", SETTINGS)
def test_micro_batch_size_and_packing_order_change_nothing(model: Path, name: str) -> None:
    rows = random_rows(10)
    found = []
    for tokens, order in ((10_000, rows), (64, rows), (128, rows[::-1])):
        settings = COMMON | SETTINGS[name] | {"microbatch_tokens": tokens}
        learner = drifted(make_learner(digits_config(model, **settings)))
        report = update(learner, order)
        found.append((report, gradients(learner), weights(learner)))
    report, gradient, after = found[0]
    scale = max(float(g.abs().max()) for g in gradient.values())
    for other_report, other_gradient, other_after in found[1:]:
        assert other_report["policy_loss"] == pytest.approx(report["policy_loss"], rel=1e-5, abs=1e-7)
        assert largest_difference(gradient, other_gradient) < 1e-6 * max(1.0, scale)
        assert largest_difference(after, other_after) < 1e-6


@pytest.fixture(scope="module")
def pair(model: Path, local_ray: None) -> Iterator[Any]:
    """Two learner actors with a process group (gloo), and a reference policy."""
    config = digits_config(model, **COMMON, kl_coeff=0.1).learners(num_learners=2)
    config.validate()
    group = config.build_learner_group(env=None, spaces=None)
    yield group
    group.shutdown()


def learn_together(pair: Any, rows: list[TokenRow], settings: dict[str, Any], start: Any) -> list[Any]:
    """The weights of both learners after one update from `start`."""

    def reset(learner: Any) -> None:
        learner._settings = learner.config.learner_section().model_copy(update={"kl_coeff": 0.0, **settings})
        learner._set_optimizer_state({})
        learner.module[MODULE].set_state(start)

    assert all(result.ok for result in pair.foreach_learner(reset))
    pair.update(training_data=TokenTrainingData.plan(rows, rng=np.random.default_rng(0), **PLAN))
    states = [result.get() for result in pair.foreach_learner(lambda learner: learner.module[MODULE].get_state())]
    return [{name: from_wire(array).clone() for name, array in state.items()} for state in states]


@pytest.mark.parametrize("name", SETTINGS)
def test_two_learners_compute_what_one_computes(model: Path, pair: Any, name: str) -> None:
    rows = random_rows(7)
    # The reference is there in any case, as in the pair.
    alone = drifted(make_learner(digits_config(model, **COMMON, **{"kl_coeff": 0.1} | SETTINGS[name])))
    alone._settings = alone._settings.model_copy(update={"kl_coeff": 0.0, **SETTINGS[name]})
    start = alone.module[MODULE].get_state()
    before = weights(alone)
    update(alone, rows, **PLAN)
    expected = {key: tensor for key, tensor in weights(alone).items() if key in start}
    moved = largest_difference(before, weights(alone))
    together = learn_together(pair, rows, SETTINGS[name], start)
    assert largest_difference(together[0], together[1]) == 0.0
    assert largest_difference(together[0], expected) < min(1e-6, 0.05 * moved)
