"""What every estimator promises of its input and its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest

from rllib_ragen.credit.estimator import Credit, Estimator, refuse_failed
from rllib_ragen.credit.token_axis import credits_of
from rllib_ragen.types import FloatArray, StopReason, Trajectory
from tests.credit.build import group_of, trajectory


class Noting(Estimator):
    """Gives nothing, and notes what values it was given."""

    seen: Sequence[FloatArray] | None = None

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Zeros."""
        self.seen = values
        return credits_of(trajectories, [np.zeros(t.num_reply_tokens) for t in trajectories])


class Critical(Noting):
    """With a critic."""

    needs_values: ClassVar[bool] = True


BATCH = group_of("a", [1.0, 0.0])
VALUES = [np.ones(5, np.float32), np.ones(5, np.float32)]


def test_an_estimator_without_a_critic_is_not_shown_values() -> None:
    estimator = Noting()
    assert len(estimator(BATCH, VALUES)) == 2
    assert estimator.seen == ()


def test_an_estimator_with_a_critic_gets_its_values() -> None:
    estimator = Critical()
    estimator(BATCH, VALUES)
    assert estimator.seen is VALUES


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "Critical needs one array of values per trajectory: 2, got none."),
        (VALUES[:1], "Critical needs one array of values per trajectory: 2, got 1."),
        ([VALUES[0], np.ones(4, np.float32)], r"values must have shape \(5,\), got \(4,\)."),
        ([np.ones((5, 1), np.float32), VALUES[1]], r"values must have shape \(5,\), got \(5, 1\)."),
    ],
)
def test_values_that_are_missing_or_misaligned_are_refused(values: list[FloatArray] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Critical()(BATCH, values)


@pytest.mark.parametrize("reason", list(StopReason))
def test_exactly_failed_trajectories_are_refused(reason: StopReason) -> None:
    batch = [*BATCH, trajectory("b", [(2, 3, 0.0)], reason)]
    if reason not in (StopReason.ENV_ERROR, StopReason.ENGINE_ERROR, StopReason.REWARD_ERROR):
        refuse_failed(batch)
        assert len(Noting()(batch)) == 3
        return
    for refuse in (refuse_failed, Noting()):
        with pytest.raises(ValueError, match=f"{reason.value}.* of group b"):
            refuse(batch)


def test_most_estimators_remember_nothing_and_compare_nothing() -> None:
    estimator = Noting()
    assert estimator.state() == {}
    estimator.restore({"whatever": 1.0})
    assert estimator.state() == {}
    assert not estimator.needs_values and not estimator.needs_group and not estimator.chosen_only
