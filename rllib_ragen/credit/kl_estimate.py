"""KL estimators from log-ratios at sampled tokens: one formula for numpy arrays and torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

KLEstimator = Literal["k1", "k2", "k3"]
Array = TypeVar("Array", npt.NDArray[np.float64], "torch.Tensor")
MAX_LOG_RATIO = 20.0
"""Bound of |log-ratio|: chosen freely; exp(20) is 5e8, and its square 2e17 is far below float32's largest, 3e38."""


def bounded_log_ratio(log_ratio: Array) -> Array:
    """Clamps log-ratios to ±MAX_LOG_RATIO, so that exp() of them stays finite."""
    return log_ratio.clip(-MAX_LOG_RATIO, MAX_LOG_RATIO)


def kl_estimate(log_ratio: Array, estimator: KLEstimator, expm1: Callable[[Array], Array]) -> Array:
    """Estimates KL(π ‖ π_ref) per token that π sampled, from d = log π − log π_ref clamped to ±20.

    k1 = d: unbiased, may be negative. k2 = ½ d²: biased, never negative. k3 = exp(−d) − 1 + d: unbiased, never
    negative. Schulman 2020, "Approximating KL Divergence" (http://joschu.net/blog/kl-approx.html).

    Args:
        log_ratio: one entry per token.
        estimator: k1, k2 or k3.
        expm1: exp(x) − 1 of the arrays' library: np.expm1 or torch.expm1.

    Raises:
        ValueError: an unknown estimator.
    """
    d = bounded_log_ratio(log_ratio)
    if estimator == "k1":
        return d
    if estimator == "k2":
        return 0.5 * d**2
    if estimator == "k3":
        return expm1(-d) + d
    raise ValueError(f"learner.kl_estimator: unknown {estimator!r}; allowed: k1, k2, k3.")
