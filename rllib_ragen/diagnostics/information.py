"""Dependence of a policy's thoughts on its prompts: entropies and mutual information (RAGEN-2, 2604.06268).

X is a prompt, Z the reasoning that the policy sampled after it. Everything follows from one matrix of log-probs,
L[i, j] = log π(z_i | x_j): each thought scored after every prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

RETRIEVAL_K = (1, 2, 4, 8)
"""Values of k for retrieval, RAGEN-2's: ranks up to which a thought's own prompt counts as found."""
FORMS = ("token", "seq")
EMA_DECAY = 0.9
"""Decay of the running std, RAGEN-2's: an average over about 1 / (1 − 0.9) = 10 measurements."""
_Z_EPS = 1e-3
"""Added to the std in z-scores, which is 0 if all thoughts are the same; RAGEN-2's value."""
_TIE = 1e-6
"""Largest difference in nats of equal log-probs: those of a policy that ignores its prompt differ only by rounding.
Chosen freely.
"""


@dataclass(frozen=True)
class Scores:
    """N thoughts scored after M distinct prompts."""

    logprobs: Array
    """[N, M] log π(z_i | x_j) in nats, summed over the thought's tokens."""
    lengths: Indices
    """[N] tokens of each thought, ≥ 1."""
    own: Indices
    """[N] column of the prompt that the thought was sampled after. Several thoughts may share a prompt."""

    def __post_init__(self) -> None:
        n, m = self.logprobs.shape
        if self.lengths.shape != (n,) or self.own.shape != (n,):
            raise ValueError(f"{n} thoughts, but lengths {self.lengths.shape} and own prompts {self.own.shape}")
        if n and (self.lengths.min() < 1 or self.own.min() < 0 or self.own.max() >= m):
            raise ValueError("a thought needs at least one token and a prompt of its own among the columns")


class Regime(IntEnum):
    """The four combinations of high and low entropy and information."""

    DIVERSE_REASONING = 1
    """High H(Z|X), high I(X;Z)."""
    TEMPLATE_COLLAPSE = 2
    """High H(Z|X), low I(X;Z): varied words that do not depend on the prompt."""
    COMPRESSED_REASONING = 3
    """Low H(Z|X), high I(X;Z)."""
    LOW_ENTROPY_COLLAPSE = 4
    """Low H(Z|X), low I(X;Z)."""

    @property
    def label(self) -> str:
        """Name in words: `template collapse`."""
        return self.name.lower().replace("_", " ")


def metric_names() -> list[str]:
    """Returns the names of the metrics of `information`, and `regime`."""
    return list(_nothing())


def information(scores: Scores, std_ema: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Computes entropies, mutual information and retrieval of `scores`; NaN throughout without a thought.

    With ℓ = L (form `seq`, nats per thought) or L / |z| (form `token`, nats per token), p(x_j) the share of thoughts
    whose prompt is x_j, matched_i = ℓ[i, own_i] and marginal_i = log Σ_j p(x_j) exp ℓ[i, j]:

        conditional_entropy   H(Z|X) = −mean matched
        marginal_entropy      H(Z)   = −mean marginal
        mutual_information    I(X;Z) = mean(matched − marginal), in `seq` form at most H(X); noise may make it negative
        information_z         mean((matched − marginal) / (std(marginal) + 1e-3)), std over thoughts with ddof = 1
        information_z_ema     likewise with the running mean of that std, decay 0.9
        information_share     I_seq / H(X), at most 1; NaN if there is one prompt only
        retrieval_k           share of thoughts whose own prompt is among the k likeliest of the M distinct ones
        retrieval_chance_k    the same for a policy that ignores its prompt: min(k, M) / M

    Args:
        scores: scores of one sample of thoughts.
        std_ema: the running means so far, by form; empty at first.

    Returns:
        (metrics, running means for the next call).
    """
    metrics, running = _nothing(), dict(std_ema)
    n, m = scores.logprobs.shape
    metrics["num_thoughts"], metrics["num_prompts"] = float(n), float(m)
    if n == 0:
        return metrics, running
    shares = np.bincount(scores.own, minlength=m) / n
    for form in FORMS:
        values = scores.logprobs if form == "seq" else scores.logprobs / scores.lengths[:, None]
        matched = values[np.arange(n), scores.own]
        marginal = _log_mean_exp(values, shares)
        std = float(marginal.std(ddof=1)) if n > 1 else 0.0
        running[form] = EMA_DECAY * running[form] + (1 - EMA_DECAY) * std if form in running else std
        metrics[f"conditional_entropy_{form}"] = float(-matched.mean())
        metrics[f"marginal_entropy_{form}"] = float(-marginal.mean())
        metrics[f"mutual_information_{form}"] = gain = float((matched - marginal).mean())
        metrics[f"information_z_{form}"] = gain / (std + _Z_EPS)
        metrics[f"information_z_ema_{form}"] = gain / (running[form] + _Z_EPS)
    prompt_entropy = -float((shares[shares > 0] * np.log(shares[shares > 0])).sum())
    if prompt_entropy > 0:
        metrics["information_share"] = metrics["mutual_information_seq"] / prompt_entropy
    for k in RETRIEVAL_K:
        metrics[f"retrieval_{k}"] = _retrieval(scores, k)
        metrics[f"retrieval_chance_{k}"] = min(k, m) / m
    return metrics, running


def regime(metrics: Mapping[str, float], entropy: float, share: float) -> Regime | None:
    """Returns the regime of a measurement; None if nothing was measured.

    Args:
        metrics: metrics of `information`.
        entropy: nats per token from which conditional_entropy_token is high.
        share: information_share from which the information is high.
    """
    h, i = metrics["conditional_entropy_token"], metrics["information_share"]
    if not (np.isfinite(h) and np.isfinite(i)):
        return None
    if i >= share:
        return Regime.DIVERSE_REASONING if h >= entropy else Regime.COMPRESSED_REASONING
    return Regime.TEMPLATE_COLLAPSE if h >= entropy else Regime.LOW_ENTROPY_COLLAPSE


def _nothing() -> dict[str, float]:
    measures = ("conditional_entropy", "marginal_entropy", "mutual_information", "information_z", "information_z_ema")
    names = [f"{measure}_{form}" for measure in measures for form in FORMS]
    names += ["information_share", *(f"retrieval_{k}" for k in RETRIEVAL_K)]
    names += [*(f"retrieval_chance_{k}" for k in RETRIEVAL_K), "num_thoughts", "num_prompts"]
    return dict.fromkeys(names, float("nan"))


def _log_mean_exp(values: Array, shares: Array) -> Array:
    """Returns [N] log Σ_j shares_j exp values[i, j]; a prompt without a thought has share 0 and does not count."""
    counted = shares > 0
    weighted = values[:, counted] + np.log(shares[counted])
    top = weighted.max(1)
    result: Array = top + np.log(np.exp(weighted - top[:, None]).sum(1))
    return result


def _retrieval(scores: Scores, k: int) -> float:
    """Returns the share of thoughts with their own prompt among the k likeliest, with ties broken at random (in
    expectation).
    """
    own = scores.logprobs[np.arange(len(scores.own)), scores.own][:, None]
    better = (scores.logprobs > own + _TIE).sum(1)
    tied = (np.abs(scores.logprobs - own) <= _TIE).sum(1)
    return float(np.clip((k - better) / tied, 0, 1).mean())
