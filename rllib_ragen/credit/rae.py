"""RAE: role-conditioned advantages, for policies that play several roles of a game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rllib_ragen.credit.estimator import Credit, Estimator
from rllib_ragen.credit.token_axis import credits_of
from rllib_ragen.types import FloatArray, Trajectory


class RoleAdvantages(Estimator):
    """A = R − b_role, b_role ← α b_role + (1 − α) R before it (SPIRAL, Liu et al. 2025, arXiv 2506.24119).

    A role is a (policy, agent) of the run's game, each with a baseline of its own: what the first seat can expect is
    not what the second can. Of several environments in a run each has roles of its own. One advantage per trajectory,
    on every sampled token. Trajectories are taken in the order in which they come. The baselines begin at 0 and last
    from batch to batch: they are `state`.
    """

    def __init__(self, role_decay: float) -> None:
        """role_decay: α; a baseline averages over about 1 / (1 − α) games."""
        self.decay = role_decay
        self._baselines: dict[str, float] = {}

    def state(self) -> dict[str, float]:
        """Returns b by role, `policy/agent`; of several environments `label/policy/agent`."""
        return dict(self._baselines)

    def restore(self, state: Mapping[str, float]) -> None:
        """Restores a `state`."""
        self._baselines = dict(state)

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Returns one advantage per trajectory; updates the baselines."""
        advantages = [np.full(t.num_reply_tokens, self._advantage(t), np.float64) for t in trajectories]
        return credits_of(trajectories, advantages)

    def _advantage(self, trajectory: Trajectory) -> float:
        role, gained = f"{trajectory.module_id}/{trajectory.agent_id}", trajectory.episode_return
        if trajectory.env:
            role = f"{trajectory.env}/{role}"
        baseline = self.decay * self._baselines.get(role, 0.0) + (1 - self.decay) * gained
        self._baselines[role] = baseline
        return gained - baseline
