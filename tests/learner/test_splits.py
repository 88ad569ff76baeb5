"""The result of an update depends on the rows alone: not on micro-batches, their order, the number of learners, or
whether these share out the weights (fsdp2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.learner_calls import on_every_learner
from rllib_ragen.learner.training_data import TokenTrainingData
from rllib_ragen.models.fsdp import own_part
from rllib_ragen.models.weight_arrays import from_array
from rllib_ragen.types import TokenRow
from tests.starpo.build import MODULE, digits_config, largest_difference, make_learner, random_rows, update, weights

SETTINGS: dict[str, dict[str, Any]] = {
    "token-mean": {},
    "sequence": {"loss": "sequence", "aggregation": "seq-mean-token-mean", "clip_low": 3e-2, "clip_high": 4e-2},
    "constant length, k3": {"aggregation": "seq-mean-token-sum-norm", "norm_tokens": 50, "kl_coeff": 0.1},
    "seq-mean-token-sum, k2": {"aggregation": "seq-mean-token-sum", "kl_coeff": 0.1, "kl_estimator": "k2"},
    "tis": {"tis_cap": 1.5},
    "clipped": {"grad_clip": 0.05},
    "recomputed": {"gradient_checkpointing": True, "microbatch_tokens": 64},
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
            if parameter.requires_grad:
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


def twins(pair: Any, **settings: Any) -> None:
    """Gives the processes of the pair further learners (`learner.twin`), which work together as the pair does."""

    def build(learner: Any) -> None:
        config = learner.config.copy(copy_frozen=False).training(**settings)
        config.validate()
        learner.twin = config.build_learner()

    on_every_learner(pair, build)


def learn_together(pair: Any, rows: list[TokenRow], settings: dict[str, Any], start: Any) -> tuple[Any, ...]:
    """(weights, moments) of the twins after two updates from `start`."""
    plans = [TokenTrainingData.plan(rows, rng=np.random.default_rng(k), **PLAN) for k in range(2)]
    shares = [[data for data, _ in plan.shard(2)] for plan in plans]

    def learn(learner: Any) -> Any:
        twin = learner.twin
        twin.settings = twin.config.learner_section().model_copy(update={"kl_coeff": 0.0, **settings})
        twin._set_optimizer_state({})
        twin.module[MODULE].set_state(start)
        for share in shares:
            twin.update(training_data=share[learner._learner_index])
        moments = twin.optimizer_states()[f"{MODULE}_policy"]["state"]
        return twin.module[MODULE].get_state(), moments

    states = [tuple(map(tensors, both)) for both in on_every_learner(pair, learn)]
    for first, second in zip(*states, strict=True):
        # Of sharded weights the first learner alone has the whole.
        assert largest_difference({name: first[name] for name in second}, second) == 0.0
    return states[0]


def tensors(state: Any) -> dict[str, torch.Tensor]:
    return {name: from_array(array).clone() for name, array in state.items()}


def learn_alone(model: Path, rows: list[TokenRow], settings: dict[str, Any]) -> tuple[Any, Any, Any]:
    """(start, weights, moments) of one learner, as `learn_together`."""
    # The reference is there in any case, as in the pair.
    alone = drifted(make_learner(digits_config(model, **COMMON | {"kl_coeff": 0.1} | settings)))
    alone.settings = alone.settings.model_copy(update={"kl_coeff": 0.0, **settings})
    start = alone.module[MODULE].get_state()
    for k in range(2):
        update(alone, rows, rng=np.random.default_rng(k), **PLAN)
    moments = alone.optimizer_states()[f"{MODULE}_policy"]["state"]
    return start, tensors(alone.module[MODULE].get_state()), tensors(moments)


def same(together: tuple[Any, Any], alone: tuple[Any, Any, Any]) -> None:
    """Weights and moments agree to 1e-6, and to a fraction of what the updates changed."""
    start, *expected = alone
    moved = largest_difference(tensors(start), expected[0])
    for found, wanted in zip(together, expected, strict=True):
        assert largest_difference(found, wanted) < min(1e-6, 0.05 * moved)


@pytest.fixture(scope="module")
def team(pair: Any, request: pytest.FixtureRequest) -> Any:
    """The pair, with twins that share out the work in one way or the other."""
    twins(pair, sharding=request.param)
    return pair


SLOW = {("fsdp2", "token-mean"), ("fsdp2", "sequence"), ("fsdp2", "seq-mean-token-sum, k2")}
CASES = [
    pytest.param(way, name, marks=[pytest.mark.slow] if (way, name) in SLOW else [])
    for way in ("ddp", "fsdp2")
    for name in SETTINGS
]


@pytest.mark.parametrize(("team", "name"), CASES, indirect=["team"], scope="module")
def test_two_learners_compute_what_one_computes(model: Path, team: Any, name: str) -> None:
    alone = learn_alone(model, random_rows(7), SETTINGS[name])
    same(learn_together(team, random_rows(7), SETTINGS[name], alone[0]), alone)


def test_sharded_learners_hold_their_part_of_weights_and_moments_and_gather_the_whole(model: Path, pair: Any) -> None:
    twins(pair, sharding="fsdp2")
    alone = learn_alone(model, random_rows(3), {})
    learn_together(pair, random_rows(3), {}, alone[0])

    def held(learner: Any) -> tuple[int, int, int]:
        twin = learner.twin
        moments = [m["exp_avg"] for _, _, optimizer in twin.named_optimizers for m in optimizer.state.values()]
        groups = [twin.module[MODULE].parameters(), moments, twin.references[MODULE].parameters()]
        numbers = [sum(own_part(tensor).numel() for tensor in group) for group in groups]
        return numbers[0], numbers[1], numbers[2]

    first, second = on_every_learner(pair, held)
    module = make_learner(digits_config(model, **COMMON, kl_coeff=0.1)).module[MODULE]
    total, of_lm = (sum(p.numel() for p in m.parameters()) for m in (module, module.llm))
    for one, other, whole in zip(first, second, (total, total, of_lm), strict=True):
        assert one + other == whole
        assert abs(one - other) <= 0.02 * whole


@pytest.mark.parametrize("sharding", ["ddp", "fsdp2"])
def test_two_learners_compute_what_one_computes_with_adapters(model: Path, pair: Any, sharding: str) -> None:
    twins(pair, sharding=sharding, lora_rank=4)
    alone = learn_alone(model, random_rows(7), {"lora_rank": 4, "kl_coeff": 0.1})
    same(learn_together(pair, random_rows(7), {"kl_coeff": 0.1}, alone[0]), alone)
