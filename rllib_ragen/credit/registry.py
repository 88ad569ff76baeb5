"""Estimators by name."""

from __future__ import annotations

from collections.abc import Callable

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.bi_level_gae import BiLevelGAE
from rllib_ragen.credit.dr_grpo import DrGRPO
from rllib_ragen.credit.estimator import Estimator
from rllib_ragen.credit.gae import GAE
from rllib_ragen.credit.gigpo import GiGPO
from rllib_ragen.credit.grpo import GRPO
from rllib_ragen.credit.rae import RoleAdvantages
from rllib_ragen.credit.raft import RAFT
from rllib_ragen.credit.reinforce_plus_plus import ReinforcePlusPlus
from rllib_ragen.credit.reinforce_plus_plus_baseline import ReinforcePlusPlusBaseline
from rllib_ragen.credit.rloo import RLOO
from rllib_ragen.credit.turn_grpo import TurnGRPO

_ESTIMATORS: dict[str, Callable[[CreditSection], Estimator]] = {
    "bi_level_gae": lambda section: BiLevelGAE(section.turn_gamma, section.gamma, section.lam, section.turn_rewards),
    "dr_grpo": lambda section: DrGRPO(),
    "gae": lambda section: GAE(section.gamma, section.lam, section.turn_rewards),
    "gigpo": lambda section: GiGPO(section.turn_gamma, section.turn_weight),
    "grpo": lambda section: GRPO(),
    "rae": lambda section: RoleAdvantages(section.role_decay),
    "raft": lambda section: RAFT(),
    "reinforce++": lambda section: ReinforcePlusPlus(section.gamma, section.turn_rewards),
    "reinforce++_baseline": lambda section: ReinforcePlusPlusBaseline(),
    "rloo": lambda section: RLOO(),
    "turn_grpo": lambda section: TurnGRPO(section.turn_gamma, section.turn_weight),
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
