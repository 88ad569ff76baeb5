"""GSPO: the ratio of the trajectory for each of its tokens."""

from __future__ import annotations

from dataclasses import replace

import torch

from rllib_ragen.learner.losses.policy import token_loss
from rllib_ragen.learner.losses.registry import PolicyTokens


def sequence_log_ratio(log_ratio: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Returns log s per token: sg[mean of log_ratio over the token's trajectory] + log_ratio − sg[log_ratio].

    Args:
        log_ratio: [N] log π − log π_old of trained tokens, in nats.
        rows: [N] int64, the index of each token's trajectory; all trained tokens of a trajectory are present.

    Returns:
        [N]. Its value is the trajectory's length-normalised log-ratio, the same for all of its tokens; its gradient
        is that of the token's own log-prob. With one advantage per trajectory and the mean over its tokens this is
        the gradient of the sequence-level ratio itself, and it takes per-token advantages as well (GSPO-token).

    Zheng et al. 2025, arXiv 2507.18071. Ratios are of whole trajectories, so clip ranges are far smaller than a
    token's: 3e-4 below and 4e-4 above in the paper.
    """
    own = log_ratio.detach()
    count = int(rows.max()) + 1 if len(rows) else 0
    sums = own.new_zeros(count).index_add_(0, rows, own)
    # A trajectory without tokens divides 0 by 0, and no token reads that.
    lengths = torch.bincount(rows)
    return (sums / lengths)[rows] + (log_ratio - own)


def sequence_loss(tokens: PolicyTokens) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns GSPO's clipped surrogate, of each trajectory's ratio."""
    return token_loss(replace(tokens, log_ratio=sequence_log_ratio(tokens.log_ratio, tokens.rows)))
