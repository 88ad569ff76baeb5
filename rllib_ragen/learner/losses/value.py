"""The critic's clipped squared error."""

from __future__ import annotations

import torch


def value_loss(values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, clip: float) -> torch.Tensor:
    """Returns ½ max((V − R)², (clip(V, V_old − clip, V_old + clip) − R)²) per token (PPO2's value clipping).

    All tensors have one shape, one entry per token; values and returns in units of reward.
    """
    bounded = torch.minimum(torch.maximum(values, old_values - clip), old_values + clip)
    return 0.5 * torch.maximum((values - returns) ** 2, (bounded - returns) ** 2)
