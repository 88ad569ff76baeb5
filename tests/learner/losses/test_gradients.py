"""Gradients of the whole objective on a 2-layer model in float64: finite differences, and closed form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch

from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.learner.losses.aggregate import row_scales
from rllib_ragen.learner.microbatches import MicroBatch
from rllib_ragen.learner.objective import objective
from rllib_ragen.models.llm_module import TokenOutputs

COUNTS = [5, 1, 7, 3]
FEATURES, HIDDEN, VOCABULARY = 6, 8, 11
SETTINGS: dict[str, dict[str, Any]] = {
    "token-mean": {},
    "seq-mean-token-mean": {"aggregation": "seq-mean-token-mean"},
    "seq-mean-token-sum": {"aggregation": "seq-mean-token-sum"},
    "seq-mean-token-sum-norm": {"aggregation": "seq-mean-token-sum-norm", "norm_tokens": 20},
    "no dual clip": {"clip_dual": None},
    "sequence": {"loss": "sequence", "aggregation": "seq-mean-token-mean", "clip_low": 0.1, "clip_high": 0.1},
    "sequence, token-mean": {"loss": "sequence", "clip_low": 0.1, "clip_high": 0.1},
    "tis": {"tis_cap": 1.2},
    "sequence, tis": {"loss": "sequence", "tis_cap": 1.2, "aggregation": "seq-mean-token-mean"},
    "k1": {"kl_coeff": 0.7, "kl_estimator": "k1"},
    "k2": {"kl_coeff": 0.7, "kl_estimator": "k2"},
    "k3": {"kl_coeff": 0.7, "kl_estimator": "k3", "aggregation": "seq-mean-token-sum-norm", "norm_tokens": 20},
}


class Problem:
    """Random tokens in rows of COUNTS, a 2-layer net with a policy head and a value head, drifted behaviour."""

    def __init__(self, seed: int, **settings: Any) -> None:
        torch.manual_seed(seed)
        self.config = LearnerSection(entropy_coeff=0.1, **settings)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, VOCABULARY + 1)
        ).double()
        n, lengths = sum(COUNTS), torch.tensor(COUNTS)
        self.inputs = torch.randn(n, FEATURES, dtype=torch.float64)
        self.actions = torch.randint(VOCABULARY, (n,))
        scales = row_scales(
            COUNTS,
            self.config.aggregation,
            total_tokens=n,
            total_rows=len(COUNTS),
            norm_tokens=self.config.norm_tokens,
        )
        advantages = torch.randn(n, dtype=torch.float64)
        if self.config.loss == "sequence":
            advantages = torch.randn(len(COUNTS), dtype=torch.float64).repeat_interleave(lengths)
        with torch.no_grad():
            logprobs, values = self.forward(slice(None))[0::2]

            def near(numbers: torch.Tensor, spread: float) -> torch.Tensor:
                return numbers + spread * torch.randn_like(numbers)

            old = near(logprobs, 0.4)
            self.batch = MicroBatch(
                input_ids=torch.zeros(0),
                trained=torch.zeros(0),
                rows=torch.arange(len(COUNTS)).repeat_interleave(lengths),
                behaviour_logprobs=near(old, 0.3),
                old_logprobs=old,
                reference_logprobs=near(logprobs, 1.0) if self.config.kl_coeff else None,
                advantages=advantages,
                returns=torch.randn(n, dtype=torch.float64),
                old_values=near(values, 0.5),
                scale=torch.tensor(scales, dtype=torch.float64).repeat_interleave(lengths),
                weight=torch.rand(len(COUNTS), dtype=torch.float64).add(0.5).repeat_interleave(lengths),
            )

    def forward(self, at: slice) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(log-prob, entropy, value) of the tokens `at`."""
        out = self.net(self.inputs[at])
        logp = out[:, :-1].log_softmax(-1)
        return logp.gather(1, self.actions[at, None])[:, 0], -(logp.exp() * logp).sum(-1), out[:, -1]

    def loss(self, rows: range) -> torch.Tensor:
        """Share of the given rows in the objective of all rows."""
        start = sum(COUNTS[: rows.start])
        at = slice(start, start + sum(COUNTS[rows.start : rows.stop]))
        own = {
            name: value[at] if value is not None and len(value) else value for name, value in vars(self.batch).items()
        }
        own["rows"] = own["rows"] - rows.start
        logprobs, entropy, values = self.forward(at)
        return objective(
            TokenOutputs(logprobs=logprobs, entropy=entropy, values=values), MicroBatch(**own), self.config
        ).loss

    def gradient(self, objective: Callable[[], torch.Tensor]) -> torch.Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(objective(), list(self.net.parameters()))])


EVERYTHING = range(len(COUNTS))


# Not of "sequence, tis": per-token weights make the paper's stop-gradient form another thing than its value's gradient.
@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "sequence, tis"])
@pytest.mark.parametrize("seed", [0, 1])
def test_gradient_agrees_with_finite_differences(name: str, seed: int) -> None:
    problem = Problem(seed, **SETTINGS[name])
    exact = problem.gradient(lambda: problem.loss(EVERYTHING))
    parameters = list(problem.net.parameters())
    flat = torch.nn.utils.parameters_to_vector(parameters).detach()
    step = 1e-6

    def at(index: int, offset: float) -> float:
        moved = flat.clone()
        moved[index] += offset
        torch.nn.utils.vector_to_parameters(moved, parameters)
        with torch.no_grad():
            return problem.loss(EVERYTHING).item()

    numeric = torch.tensor([(at(i, step) - at(i, -step)) / (2 * step) for i in range(len(flat))], dtype=torch.float64)
    assert exact.norm() > 1e-3
    torch.testing.assert_close(exact, numeric, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", SETTINGS)
def test_accumulated_microbatches_give_the_gradient_of_the_whole(name: str) -> None:
    problem = Problem(2, **SETTINGS[name])
    whole = problem.gradient(lambda: problem.loss(EVERYTHING))
    for cuts in ([0, 1, 2, 3, 4], [0, 3, 4], [0, 2, 4]):
        parts = [range(a, b) for a, b in pairwise(cuts)]
        split = torch.stack([problem.gradient(partial(problem.loss, part)) for part in parts]).sum(0)
        torch.testing.assert_close(split, whole, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("loss", ["token", "sequence"])
def test_on_policy_gradient_is_the_policy_gradient_theorems(loss: str) -> None:
    """At ρ = 1 the surrogate's gradient is −mean A ∇ log π, whatever the clips and whose ratio it is."""
    problem = Problem(3, loss=loss, value_coeff=0.0)
    problem.config.entropy_coeff = 0.0
    with torch.no_grad():
        problem.batch.behaviour_logprobs[:] = problem.forward(slice(None))[0]

    def theorem() -> torch.Tensor:
        batch = problem.batch
        return -(batch.scale * batch.weight * batch.advantages * problem.forward(slice(None))[0]).sum()

    found = problem.gradient(lambda: problem.loss(EVERYTHING))
    torch.testing.assert_close(found, problem.gradient(theorem), rtol=1e-12, atol=1e-14)


def test_with_the_weights_that_sampled_tis_scales_the_policy_gradient_by_its_weights() -> None:
    """First step of an update: no old log-probs are given, the ratio is 1, and only min(cap, π_old/π_b) is left."""
    problem = Problem(4, tis_cap=1.2, value_coeff=0.0)
    problem.config.entropy_coeff = 0.0
    batch = problem.batch
    problem.batch = MicroBatch(**{**vars(batch), "old_logprobs": None})

    def theorem() -> torch.Tensor:
        logprobs = problem.forward(slice(None))[0]
        weights = (logprobs - batch.behaviour_logprobs).detach().exp().clamp(max=1.2)
        assert weights.min() < 1.2 == weights.max()
        return -(batch.scale * batch.weight * weights * batch.advantages * logprobs).sum()

    found = problem.gradient(lambda: problem.loss(EVERYTHING))
    torch.testing.assert_close(found, problem.gradient(theorem), rtol=1e-12, atol=1e-14)
