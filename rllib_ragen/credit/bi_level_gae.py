"""Bi-level GAE: advantages of turns first, and from these the advantages of each turn's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rllib_ragen.credit.estimator import Credit, Estimator
from rllib_ragen.credit.gae import generalised
from rllib_ragen.credit.token_axis import Numbers, at_trained, credits_of, token_rewards, whitened
from rllib_ragen.types import FloatArray, Trajectory


class BiLevelGAE(Estimator):
    """GAE over turns, then GAE over the tokens inside each turn (VAGEN, arXiv 2510.16907; in RAGEN's code).

    V(k) is the value where turn k's last token is sampled, r_k the turn's reward:
    turns   δ_k = r_k + γ_turn V(k+1) − V(k),  A_k = δ_k + γ_turn λ A_{k+1}
    tokens  ordinary GAE (γ, λ) inside turn k; its last token's reward is A_k + V(k), and the value after it 0.
    returns = A + V; A is then whitened over the batch's trained tokens. Turns are known by their tokens, not by
    rewards that differ from 0, so turns without reward and all-zero episodes are like any other.
    """

    needs_values: ClassVar[bool] = True

    def __init__(self, turn_gamma: float, gamma: float, lam: float, turn_rewards: bool) -> None:
        """turn_gamma, gamma: discounts per turn and per trained token; lam: λ of both; turn_rewards: see
        `token_rewards`.
        """
        self.turn_gamma = turn_gamma
        self.gamma = gamma
        self.lam = lam
        self.turn_rewards = turn_rewards

    def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
        """Returns one advantage and one return per trained token."""
        seen = at_trained(trajectories, values)
        turns = at_trained(trajectories, [t.turn_index() for t in trajectories])
        rewards = at_trained(trajectories, [token_rewards(t, self.turn_rewards) for t in trajectories])
        raw = [self._advantages(*arrays) for arrays in zip(turns, rewards, seen, strict=True)]
        return credits_of(trajectories, whitened(raw), [a + v for a, v in zip(raw, seen, strict=True)])

    def _advantages(self, turns: Numbers, rewards: Numbers, values: Numbers) -> Numbers:
        if len(turns) == 0:
            return turns
        begins = np.flatnonzero(np.diff(turns, prepend=-1))
        ends = np.append(begins[1:], len(turns)) - 1
        of_turns = generalised(np.add.reduceat(rewards, begins), values[ends], self.turn_gamma, self.lam)
        targets = np.zeros_like(values)
        targets[ends] = of_turns + values[ends]
        parts = [slice(begin, end + 1) for begin, end in zip(begins, ends, strict=True)]
        return np.concatenate([generalised(targets[part], values[part], self.gamma, self.lam) for part in parts])
