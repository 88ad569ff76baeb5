"""Estimators by name: the shipped ones, and the registry of users' own."""

from __future__ import annotations

import inspect

from ragen_envs.open_names import OpenNames
from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.estimator import Estimator

_HERE = "rllib_ragen.credit"
_SHIPPED = {
    "bi_level_gae": f"{_HERE}.bi_level_gae:BiLevelGAE",
    "cloning": f"{_HERE}.cloning:Cloning",
    "dr_grpo": f"{_HERE}.dr_grpo:DrGRPO",
    "gae": f"{_HERE}.gae:GAE",
    "gigpo": f"{_HERE}.gigpo:GiGPO",
    "grpo": f"{_HERE}.grpo:GRPO",
    "rae": f"{_HERE}.rae:RoleAdvantages",
    "raft": f"{_HERE}.raft:RAFT",
    "reinforce++": f"{_HERE}.reinforce_plus_plus:ReinforcePlusPlus",
    "reinforce++_baseline": f"{_HERE}.reinforce_plus_plus_baseline:ReinforcePlusPlusBaseline",
    "rloo": f"{_HERE}.rloo:RLOO",
    "turn_grpo": f"{_HERE}.turn_grpo:TurnGRPO",
}
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def estimator_names() -> list[str]:
    """Returns the estimators that ship with the package, sorted."""
    return ESTIMATORS.shipped()


def register_estimator(name: str, estimator: type[Estimator]) -> None:
    """Registers a user's estimator as `name`, for `credit.estimator`.

    Args:
        name: letters, digits and `_ . + -`; a name that is registered already gets the new estimator.
        estimator: a class derived from Estimator; parameters of its constructor that are named like a key of `credit`
        (`gamma`, `lam`, …) get its value, others keep their defaults.

    Raises:
        ValueError: the name of a shipped estimator, or no such class.
    """
    ESTIMATORS.register(name, estimator)


def make_estimator(section: CreditSection) -> Estimator:
    """Makes the estimator that `credit.estimator` names, with the section's settings.

    Raises:
        ValueError: no such estimator; one sentence that names the key.
    """
    estimator = ESTIMATORS.resolve(section.estimator, "credit.estimator")
    return estimator(**{name: getattr(section, name) for name in _parameters(estimator) if name in _keys()})


def _check(thing: object) -> type[Estimator]:
    if not (isinstance(thing, type) and issubclass(thing, Estimator)):
        raise ValueError(f"must be a class derived from Estimator, not {thing!r}")
    if inspect.isabstract(thing):
        raise ValueError(f"the class {thing.__name__} lacks {', '.join(sorted(thing.__abstractmethods__))}")
    for name, parameter in _parameters(thing).items():
        if parameter.default is parameter.empty and parameter.kind not in _VARIABLE and name not in _keys():
            raise ValueError(
                f"the constructor of {thing.__name__} needs {name!r}, which is no key of credit and has no default"
            )
    return thing


def _parameters(estimator: type[Estimator]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(estimator).parameters)


def _keys() -> set[str]:
    return set(CreditSection.model_fields)


ESTIMATORS: OpenNames[type[Estimator]] = OpenNames("estimator", "rllib_ragen.estimators", _SHIPPED, _check)
"""All estimators by name."""
