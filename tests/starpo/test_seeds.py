"""What the run seed reaches, and what a run does not depend on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rllib_ragen.learner.training_data import TokenTrainingData
from rllib_ragen.rollout.specs import evaluation_specs, training_specs
from tests.starpo.build import digits_config, make_learner, metrics_of, random_rows, weights

pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.mark.parametrize("what", ["value_head.inner.weight", "lora_A"])
def test_R2_the_seed_reaches_the_initialisation_of_critic_and_adapters(model: Path, what: str) -> None:
    drawn: list[torch.Tensor] = []
    for seed in (3, 3, 4):
        torch.manual_seed(len(drawn))  # whatever else has drawn numbers
        learner = make_learner(digits_config(model, estimator="gae", lora_rank=2).debugging(seed=seed))
        found = [tensor for name, tensor in weights(learner).items() if what in name]
        assert found
        drawn.append(torch.cat([tensor.flatten() for tensor in found]))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_R2_the_seed_reaches_instances_outcomes_and_sampling_and_evaluation_is_the_same_for_all() -> None:
    one, other = (training_specs(seed, 0, 5, 2) for seed in (0, 1))
    for name in ("env_seed", "outcome_seed", "sampling_seed"):
        assert not {getattr(spec, name) for spec in one} & {getattr(spec, name) for spec in other}, name
    assert training_specs(1, 0, 5, 2) == other
    assert evaluation_specs("val", range(4)) == evaluation_specs("val", range(4))


def test_R2_the_order_of_minibatches_follows_from_its_seed_alone() -> None:
    rows = random_rows(12)

    def order(seed: int) -> list[int]:
        plan = TokenTrainingData.plan(rows, num_minibatches=3, num_epochs=1, rng=np.random.default_rng([4, seed, 0]))
        return [row.index for step in plan.steps for row in step.rows]

    np.random.seed(5)
    first = order(0)
    np.random.seed(6)
    assert order(0) == first != order(1)


def test_R2_a_run_does_not_depend_on_how_many_environments_a_runner_has(model: Path) -> None:
    """Tokens and rewards exactly; log-probs up to the last bits, which depend on which replies share a batch."""
    runs = []
    for at_once in (16, 5):
        algo = digits_config(model, estimator="gae").rollout(max_concurrent=at_once).debugging(seed=2).build_algo()
        results = [metrics_of(algo.train()) for _ in range(2)]
        runs.append((results, [t.token_ids().tolist() for t in algo.last_trajectories()]))
        algo.stop()
    assert runs[0][1] == runs[1][1]
    for left, right in zip(runs[0][0], runs[1][0], strict=True):
        assert left.keys() == right.keys()
        for name, value in left.items():
            if not name.startswith(("logprob_gap", "prefix_hit")):
                assert value == pytest.approx(right[name], rel=1e-3, abs=1e-5, nan_ok=True), name
