"""Estimators by name."""

from __future__ import annotations

from collections.abc import Callable

from rllib_ragen.config import CreditSection
from rllib_ragen.credit.base import Estimator
from rllib_ragen.credit.dr_grpo import DrGRPO
from rllib_ragen.credit.gae import GAE
from rllib_ragen.credit.grpo import GRPO
from rllib_ragen.credit.rloo import RLOO

_ESTIMATORS: dict[str, Callable[[CreditSection], Estimator]] = {
    "dr_grpo": lambda section: DrGRPO(),
    "gae": lambda section: GAE(section.gamma, section.lam, section.turn_rewards),
    "grpo": lambda section: GRPO(),
    "rloo": lambda section: RLOO(),
}


def estimator_names() -> list[str]:
    """Allowed values of `credit.estimator`, sorted."""
    return sorted(_ESTIMATORS)


def make_estimator(section: CreditSection) -> Estimator:
    """The estimator that `credit.estimator` names, with the section's settings.

    Raises ValueError, with the allowed names, if there is none of that name.
    """
    if section.estimator not in _ESTIMATORS:
        raise ValueError(f"credit.estimator: unknown {section.estimator!r}; allowed: {', '.join(estimator_names())}.")
    return _ESTIMATORS[section.estimator](section)
