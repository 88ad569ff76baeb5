"""The KL penalty in the reward, as in the first PPO for language models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rllib_ragen.credit.kl_estimate import KLEstimator, kl_estimate
from rllib_ragen.types import FloatArray, Trajectory


def with_kl_cost(
    trajectories: Sequence[Trajectory], reference: Sequence[FloatArray], coeff: float, estimator: KLEstimator
) -> tuple[list[Trajectory], float]:
    """Subtracts from each turn's reward `coeff` times the sum of `kl_estimate` over its sampled tokens.

    The policy of the ratio is the one that sampled. The penalty is part of the turn's reward, so every advantage
    estimator includes it. Stiennon et al. 2020, arXiv 2009.01325.

    Args:
        trajectories: the trajectories to train on.
        reference: [num_tokens] for each trajectory: the reference policy's log-probs at the sampled tokens.
        coeff: ≥ 0.
        estimator: k1, k2 or k3.

    Returns:
        (copies of the trajectories, mean of the estimate over all sampled tokens, NaN without one).
    """
    costs = [_costs(*both, estimator) for both in zip(trajectories, reference, strict=True)]
    tokens = sum(trajectory.num_reply_tokens for trajectory in trajectories)
    mean = sum(float(own.sum()) for own in costs) / tokens if tokens else float("nan")
    return [_paid(trajectory, coeff * own) for trajectory, own in zip(trajectories, costs, strict=True)], mean


def _costs(trajectory: Trajectory, reference: FloatArray, estimator: KLEstimator) -> npt.NDArray[np.float64]:
    """Returns [turns] sums over each turn's sampled tokens."""
    turns = trajectory.turn_index()
    trained = turns >= 0
    log_ratio = (trajectory.behaviour_logprobs() - reference)[trained].astype(np.float64)
    per_token = kl_estimate(log_ratio, estimator, np.expm1)
    sums = np.zeros(len(trajectory.turns), np.float64)
    np.add.at(sums, turns[trained], per_token)
    return sums


def _paid(trajectory: Trajectory, costs: npt.NDArray[np.float64]) -> Trajectory:
    turns = [
        replace(turn, reward=turn.reward - cost) for turn, cost in zip(trajectory.turns, costs.tolist(), strict=True)
    ]
    return replace(trajectory, turns=turns)
