"""Policy losses by name, and what a loss must return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.learner.losses.policy import log_likelihood_loss, token_loss
from rllib_ragen.learner.losses.registry import LOSSES, PolicyTokens, checked_loss, register_loss
from rllib_ragen.learner.losses.sequence import sequence_loss

TOKENS = PolicyTokens(torch.zeros(3), torch.ones(3), torch.zeros(3, dtype=torch.int64), LearnerSection())


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    before = dict(LOSSES._registered)
    yield
    LOSSES._registered.clear()
    LOSSES._registered.update(before)


def test_the_shipped_losses_are_found_by_name() -> None:
    found = {name: LOSSES.resolve(name, "learner.loss") for name in LOSSES.shipped()}
    assert found == {"token": token_loss, "sequence": sequence_loss, "log_likelihood": log_likelihood_loss}


def test_an_unknown_loss_is_refused_with_its_key() -> None:
    with pytest.raises(
        ValueError, match=r"^learner\.loss: unknown loss 'tokn'; allowed: token, log_likelihood, sequence"
    ):
        LOSSES.resolve("tokn", "learner.loss")


def test_a_loss_of_ones_own_is_called_with_the_tokens_and_its_result_is_returned() -> None:
    given: list[PolicyTokens] = []
    result = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True])

    def mine(tokens: PolicyTokens) -> tuple[torch.Tensor, torch.Tensor]:
        given.append(tokens)
        return result

    register_loss("mine", mine)
    assert LOSSES.resolve("mine", "learner.loss") is mine
    assert checked_loss("mine", TOKENS) is result
    assert given == [TOKENS]


FINE, WRONG = torch.zeros(3), torch.zeros(2)


@pytest.mark.parametrize(
    "returned",
    [
        None,
        FINE,
        [FINE, FINE],
        (FINE,),
        (FINE, FINE, FINE),
        (FINE, WRONG),
        (WRONG, FINE),
        (WRONG, WRONG),
        (FINE, torch.zeros(3, 1)),
        (FINE, None),
        ("loss", "clipped"),
        (),
    ],
    ids=str,
)
def test_a_loss_must_return_two_tensors_of_one_number_per_token(returned: Any) -> None:
    register_loss("mine", lambda tokens: returned)
    with pytest.raises(ValueError, match=r"^learner\.loss=mine must return \(loss, clipped\).* of shape \[3\]$"):
        checked_loss("mine", TOKENS)
