"""Turn-level GRPO: turns compared with the same turn of the group's other trajectories."""

from __future__ import annotations

from collections.abc import Hashable

from rllib_ragen.credit.turn_level import TurnEstimator
from rllib_ragen.types import Trajectory


class TurnGRPO(TurnEstimator):
    """A_k = A_episode + ω A_turn, A_turn over the group's trajectories that reached turn k.

    After MT-GRPO (Zeng et al. 2025, arXiv 2505.11821), which adds the outcome's and the turn's group advantage for two
    turns; here a turn's return is its discounted return-to-go (γ = `turn_gamma`), for any number of turns.
    """

    def key(self, trajectory: Trajectory, turn: int) -> Hashable:
        """Returns the turn's number."""
        return turn
