"""Gradients of the whole objective on a 2-layer model in float64: finite differences, and closed form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import torch

from rllib_ragen.learner.losses.aggregate import Aggregation, row_scales
from rllib_ragen.learner.losses.policy import policy_loss
from rllib_ragen.learner.losses.value import value_loss

COUNTS = [5, 1, 7, 3]
FEATURES, HIDDEN, VOCABULARY = 6, 8, 11


class Problem:
    """Random tokens in rows of COUNTS, a 2-layer net with a policy head and a value head, drifted behaviour."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, VOCABULARY + 1)
        ).double()
        n = sum(COUNTS)
        self.inputs = torch.randn(n, FEATURES, dtype=torch.float64)
        self.actions = torch.randint(VOCABULARY, (n,))
        self.advantages = torch.randn(n, dtype=torch.float64)
        self.returns = torch.randn(n, dtype=torch.float64)
        with torch.no_grad():
            logprobs, values = self.forward(slice(None))
            self.old_logprobs = logprobs + 0.4 * torch.randn_like(logprobs)
            self.old_values = values + 0.5 * torch.randn_like(values)

    def forward(self, at: slice) -> tuple[torch.Tensor, torch.Tensor]:
        out = self.net(self.inputs[at])
        logprobs = out[:, :-1].log_softmax(-1).gather(1, self.actions[at, None])[:, 0]
        return logprobs, out[:, -1]

    def loss(self, rows: range, aggregation: Aggregation) -> torch.Tensor:
        """Share of the given rows in the objective of all rows."""
        start = sum(COUNTS[: rows.start])
        counts = COUNTS[rows.start : rows.stop]
        at = slice(start, start + sum(counts))
        logprobs, values = self.forward(at)
        policy, _ = policy_loss(
            logprobs, self.old_logprobs[at], self.advantages[at], clip_low=0.2, clip_high=0.28, clip_dual=3.0
        )
        value = value_loss(values, self.old_values[at], self.returns[at], 0.5)
        scales = row_scales(counts, aggregation, total_tokens=sum(COUNTS), total_rows=len(COUNTS))
        weights = torch.tensor(scales, dtype=torch.float64).repeat_interleave(torch.tensor(counts))
        return (weights * (policy + 0.5 * value)).sum()

    def gradient(self, objective: Callable[[], torch.Tensor]) -> torch.Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(objective(), list(self.net.parameters()))])


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
@pytest.mark.parametrize("seed", [0, 1])
def test_gradient_agrees_with_finite_differences(aggregation: Aggregation, seed: int) -> None:
    problem = Problem(seed)
    everything = range(len(COUNTS))
    exact = problem.gradient(lambda: problem.loss(everything, aggregation))
    parameters = list(problem.net.parameters())
    flat = torch.nn.utils.parameters_to_vector(parameters).detach()
    step = 1e-6

    def at(index: int, offset: float) -> float:
        moved = flat.clone()
        moved[index] += offset
        torch.nn.utils.vector_to_parameters(moved, parameters)
        with torch.no_grad():
            return problem.loss(everything, aggregation).item()

    numeric = torch.tensor([(at(i, step) - at(i, -step)) / (2 * step) for i in range(len(flat))], dtype=torch.float64)
    assert exact.norm() > 1e-3
    torch.testing.assert_close(exact, numeric, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_accumulated_microbatches_give_the_gradient_of_the_whole(aggregation: Aggregation) -> None:
    problem = Problem(2)
    whole = problem.gradient(lambda: problem.loss(range(4), aggregation))
    for cuts in ([0, 1, 2, 3, 4], [0, 3, 4], [0, 2, 4]):
        parts = [range(a, b) for a, b in pairwise(cuts)]
        split = torch.stack([problem.gradient(partial(problem.loss, p, aggregation)) for p in parts]).sum(0)
        torch.testing.assert_close(split, whole, rtol=1e-12, atol=1e-14)


def test_on_policy_gradient_is_the_policy_gradient_theorems() -> None:
    """At ρ = 1 the surrogate's gradient is −mean A ∇ log π, whatever the clips."""
    problem = Problem(3)
    with torch.no_grad():
        problem.old_logprobs = problem.forward(slice(None))[0]

    def surrogate() -> torch.Tensor:
        logprobs, _ = problem.forward(slice(None))
        loss, clipped = policy_loss(
            logprobs, problem.old_logprobs, problem.advantages, clip_low=0.2, clip_high=0.28, clip_dual=3.0
        )
        assert not clipped.any()
        return loss.mean()

    reinforce = problem.gradient(lambda: -(problem.advantages * problem.forward(slice(None))[0]).mean())
    torch.testing.assert_close(problem.gradient(surrogate), reinforce, rtol=1e-12, atol=1e-14)
