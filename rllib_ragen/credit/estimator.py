"""The interface of advantage estimators: trajectories (and a critic's values) in, an advantage per trained token
out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rllib_ragen.types import FloatArray, Trajectory


@dataclass(frozen=True)
class Credit:
    """Advantages and returns of one trajectory; both arrays are [num_tokens] and 0 outside the trained positions."""

    advantages: FloatArray
    returns: FloatArray
    """The critic's targets; zeros if the estimator has no critic."""


class Estimator(ABC):
    """Computes advantages from raw rewards. Without `state` the same batch gives the same credits, in any order."""

    needs_values: ClassVar[bool] = False
    """Whether the estimator needs a critic's values."""
    needs_group: ClassVar[bool] = False
    """Whether trajectories are compared within their group, so that a group of one has no advantage."""

    chosen_only: ClassVar[bool] = False
    """Whether trajectories without advantage are left out of the update, and of a minibatch's counts."""

    def __call__(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray] | None = None) -> list[Credit]:
        """Returns the credits, aligned with `trajectories`.

        values: [num_tokens] per trajectory; entry i is the critic's value of the state in which token i is sampled
        (it has seen tokens < i). Read at trained positions only; ignored unless `needs_values`.

        Raises ValueError for a failed trajectory, and for values that are missing or misaligned.
        """
        refuse_failed(trajectories)
        if not self.needs_values:
            return self.assign(trajectories, ())
        if values is None or len(values) != len(trajectories):
            given = "none" if values is None else str(len(values))
            raise ValueError(
                f"{type(self).__name__} needs one array of values per trajectory: {len(trajectories)}, got {given}."
            )
        for trajectory, value in zip(trajectories, values, strict=True):
            if value.shape != (trajectory.num_tokens,):
                raise ValueError(f"values must have shape ({trajectory.num_tokens},), got {value.shape}.")
        return self.assign(trajectories, values)

    def state(self) -> dict[str, float]:
        """Returns the estimator's state between batches, for a checkpoint; most have none."""
        return {}

    def restore(self, state: Mapping[str, float]) -> None:  # noqa: B027 - most have nothing to restore
        """Restores a `state`."""

    @abstractmethod
    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Computes the credits from checked input; `values` is empty unless `needs_values`."""


def refuse_failed(trajectories: Sequence[Trajectory]) -> None:
    """Raises ValueError if any trajectory has failed: its reward would shift its group's baseline."""
    for trajectory in trajectories:
        if trajectory.stop_reason.failed:
            raise ValueError(
                f"A failed trajectory ({trajectory.stop_reason.value}) of group {trajectory.group_id} reached the"
                " credit stage; failed trajectories are dropped before any statistic."
            )
