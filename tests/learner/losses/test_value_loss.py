"""The critic's loss against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from rllib_ragen.learner.losses.value import value_loss


@pytest.mark.parametrize(
    ("value", "old", "target", "loss", "gradient"),
    [
        (0.3, 0.0, 1.0, 0.5 * 0.49, -0.7),  # within the clip range: ½(V − R)², gradient V − R
        (0.8, 0.0, 1.0, 0.5 * 0.25, 0.0),  # moved 0.8 > 0.5 towards the target: held at 0.5, no gradient
        (-0.8, 0.0, 1.0, 0.5 * 3.24, -1.8),  # moved away: the larger error counts, the way back is open
        (1.0, 1.0, 1.0, 0.0, 0.0),
        (-0.8, 0.0, -1.0, 0.5 * 0.25, 0.0),  # moved 0.8 > 0.5 down, towards the target: held at −0.5, no gradient
        (0.8, 0.0, -1.0, 0.5 * 3.24, 1.8),  # moved up, away from it
        (0.8, 1.0, 0.0, 0.5 * 0.64, 0.8),  # the range is around the old value, not around 0
    ],
)
def test_hand_computed_cases_with_clip_one_half(
    value: float, old: float, target: float, loss: float, gradient: float
) -> None:
    values = torch.tensor([value], dtype=torch.float64, requires_grad=True)
    result = value_loss(
        values, torch.tensor([old], dtype=torch.float64), torch.tensor([target], dtype=torch.float64), 0.5
    )
    (found,) = torch.autograd.grad(result.sum(), values)
    assert result.item() == pytest.approx(loss) and found.item() == pytest.approx(gradient)
