"""GiGPO: turns compared with the group's other turns in the same state."""

from __future__ import annotations

from collections.abc import Hashable

from rllib_ragen.credit.turn_level import TurnEstimator
from rllib_ragen.types import Trajectory


class GiGPO(TurnEstimator):
    """A_k = A_episode + ω A_step, A_step over all turns of the group in the same *anchor state* (arXiv 2505.10978).

    A state is `Turn.state`, the environment's state as text, compared exactly; when and how often it was reached does
    not matter. Feng et al. 2025 take γ = 0.95 per turn and ω = 1. If no state occurs twice it is GRPO.
    """

    def key(self, trajectory: Trajectory, turn: int) -> Hashable:
        """Returns the state in which the turn was taken. Raises ValueError if it was not recorded."""
        state = trajectory.turns[turn].state
        if not state:
            raise ValueError(
                f"credit.estimator=gigpo compares turns taken in the same state, but a turn of group"
                f' {trajectory.group_id} names none: the environment must give info["state"], a text that is not empty.'
            )
        return state
