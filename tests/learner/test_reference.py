"""The KL term: its reference is what the run started from, there only when it is wanted, and never moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from rllib_ragen.types import TokenRow
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


def quiet(rows: list[TokenRow]) -> list[TokenRow]:
    """Rows of groups without spread."""
    return [replace(row, advantages=np.zeros_like(row.advantages)) for row in rows]


def test_without_the_term_there_is_no_second_model_and_no_number(model: Path) -> None:
    learner = make_learner(digits_config(model))
    assert learner.references == {}
    assert "kl" not in update(learner, random_rows(2))


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_divergence_is_exactly_zero_before_the_first_step(
    model: Path, estimator: str, dtype: Literal["float32", "bfloat16"]
) -> None:
    settings: dict[str, Any] = {"kl_coeff": 0.1, "kl_estimator": estimator, "estimator": "gae"}
    learner = make_learner(digits_config(model, **settings).llm(dtype=dtype))
    assert update(learner, random_rows(4))["kl"] == 0.0
    assert update(learner, random_rows(4))["kl"] != 0.0


def test_N2_groups_without_spread_are_pulled_back_to_the_reference_and_it_stays(model: Path) -> None:
    settings: dict[str, Any] = {"entropy_coeff": 0.0, "weight_decay": 0.0}
    learner = make_learner(digits_config(model, kl_coeff=1.0, kl_estimator="k2", **settings))
    reference = {name: t.clone() for name, t in learner.references[MODULE].state_dict().items()}
    for _ in range(5):
        update(learner, random_rows(4))
    rows = quiet(random_rows(4))
    away = [update(learner, rows)["kl"] for _ in range(30)]
    assert away[-1] < 0.5 * away[0]
    assert largest_difference(reference, dict(learner.references[MODULE].state_dict())) == 0.0
    free = make_learner(digits_config(model, **settings))
    before = weights(free)
    update(free, rows)
    assert largest_difference(before, weights(free)) == 0.0, "without the term nothing pulls"


def test_the_reference_trains_nothing_and_is_in_no_state(model: Path) -> None:
    learner = make_learner(digits_config(model, kl_coeff=0.1, estimator="gae"))
    twin = learner.references[MODULE]
    assert twin.value_head is None and not any(p.requires_grad for p in twin.parameters())
    own = {parameter.data_ptr() for parameter in learner.module[MODULE].parameters()}
    assert not own & {parameter.data_ptr() for parameter in twin.parameters()}
    trained = {id(p) for _, _, o in learner.named_optimizers for g in o.param_groups for p in g["params"]}
    assert not trained & {id(p) for p in twin.parameters()}
    assert set(learner.get_state(not_components="metrics_logger")["rl_module"]) == {MODULE}


@pytest.mark.usefixtures("local_ray")
def test_R1_a_resumed_run_keeps_the_model_folders_weights_as_reference_to_the_last_bit(
    model: Path, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"kl_coeff": 0.05, "tis_cap": 2.0, "num_minibatches": 2, "num_epochs": 2}
    settings |= {"lr_schedule": "cosine", "warmup_iterations": 2, "decay_iterations": 4}
    whole = digits_config(model, **settings).build_algo()
    expected = [metrics_of(whole.train()) for _ in range(4)]
    start = {name: t.clone() for name, t in whole.learner_group._learner.references[MODULE].state_dict().items()}
    whole.stop()
    first = digits_config(model, **settings).build_algo()
    before = [metrics_of(first.train()) for _ in range(2)]
    first.save_checkpoint(str(tmp_path))
    first.stop()
    second = digits_config(model, **settings).build_algo()
    second.load_checkpoint(str(tmp_path))
    learner = second.learner_group._learner
    assert largest_difference(dict(learner.references[MODULE].state_dict()), start) == 0.0
    assert largest_difference(weights(learner), start) > 0
    after = [metrics_of(second.train()) for _ in range(2)]
    assert before + after == expected
    assert all(result["kl"] > 0 for result in after)
    assert [result["lr"] for result in expected] == pytest.approx([5e-4, 1e-3, 1e-3, 5e-4])
    second.stop()


def test_the_term_is_the_hand_computed_one(model: Path) -> None:
    learner = make_learner(digits_config(model, kl_coeff=0.1, kl_estimator="k3"))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in learner.module[MODULE].parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    (row,) = random_rows(1)
    where = np.flatnonzero(row.mask)

    def logprobs(llm: Any) -> torch.Tensor:
        with torch.no_grad():
            logits = llm(torch.from_numpy(row.token_ids.astype(np.int64))[None]).logits[0]
        return torch.as_tensor(logits.log_softmax(-1)[where - 1, row.token_ids[where]])

    d = logprobs(learner.module[MODULE].llm) - logprobs(learner.references[MODULE].llm)
    assert update(learner, [row])["kl"] == pytest.approx(float((torch.exp(-d) - 1 + d).mean()), rel=1e-4)


def test_a_cost_in_the_reward_is_no_term_of_the_loss_and_measured_from_the_start(model: Path) -> None:
    rows = random_rows(4)
    learners = [make_learner(digits_config(model, kl_coeff=c, kl_in="reward")) for c in (0.0, 0.5)]
    first = learners[1].reference_logprobs(rows)
    for learner in learners:
        assert "kl" not in update(learner, rows)
    assert largest_difference(*map(weights, learners)) == 0.0
    for row, before, after in zip(rows, first, learners[1].reference_logprobs(rows), strict=True):
        assert (before[row.mask == 0] == 0).all() and (before[row.mask > 0] < 0).all()
        np.testing.assert_array_equal(before, after)


@pytest.mark.usefixtures("local_ray")
def test_a_cost_in_the_reward_moves_advantages_once_the_policy_has_moved(model: Path) -> None:
    found = {}
    for where in ("loss", "reward"):
        config = digits_config(model, kl_coeff=0.5, kl_in=where, estimator="dr_grpo", normalize="none")
        algo = config.build_algo()
        results = [algo.train()["starpo"]]
        advantages = [a for a in algo.last_advantages() if a is not None]
        results.append(algo.train()["starpo"])
        found[where] = (results, advantages)
        algo.stop()
    (loss, plain), (reward, paid) = found["loss"], found["reward"]
    assert abs(reward[0]["kl"]) < 1e-6 < reward[1]["kl"]
    for one, other in zip(plain, paid, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert loss[0]["return_mean"] == reward[0]["return_mean"]
