"""What an update reports, over all policies that were updated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

LEARNER_METRICS = (
    "policy_loss",
    "value_loss",
    "entropy",
    "clip_fraction",
    "grad_norm",
    "logprob_gap_mean",
    "logprob_gap_max",
    "logprob_gap_k3",
    "num_trained_tokens",
    "skipped_steps",
    "skipped_in_a_row",
    "lr",
)
_TOGETHER: dict[str, Callable[[Sequence[float]], float]] = {
    "logprob_gap_max": max,
    "num_trained_tokens": sum,
    "skipped_steps": sum,
    "skipped_in_a_row": max,
}
"""How the policies' numbers become one; the others' means are taken."""


def learner_metrics(by_policy: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The metrics of an update; with several policies also each one's, as `<metric>_<policy>`.

    `kl` is there only with a reference.
    """
    names = [name for name in (*LEARNER_METRICS, "kl") if all(name in own for own in by_policy.values())]
    values = {name: [float(own[name]) for own in by_policy.values()] for name in names}
    found = {name: float(_TOGETHER.get(name, _mean)(numbers)) for name, numbers in values.items()}
    if len(by_policy) > 1:
        for policy, own in by_policy.items():
            found |= {f"{name}_{policy}": float(own[name]) for name in names}
    return found


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers))
