"""Names that users registered in Python (`register_estimator("mine", …)`), for the processes that get a config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragen_envs.open_names import OpenNames
from ragen_envs.tree import Tree
from ragen_envs.worlds import ENVIRONMENTS
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.credit.filter_rules import FILTERS
from rllib_ragen.credit.registry import ESTIMATORS
from rllib_ragen.learner.losses.registry import LOSSES

Registered = dict[str, Tree]
"""Registered things by kind (`estimator`) and name."""
_KINDS: dict[str, OpenNames[Any]] = {known.kind: known for known in (ENVIRONMENTS, ESTIMATORS, FILTERS, LOSSES)}


def registered_for(*, environment: str | None, estimator: str, filter: str, loss: str) -> Registered:
    """Returns the things that were registered in this process under these names.

    Import paths and entry points are not included: other processes find these themselves.
    """
    asked = {"environment": environment, "estimator": estimator, "filter": filter, "loss": loss}
    found: Registered = {}
    for kind, name in asked.items():
        thing = None if name is None else _KINDS[kind].registered(name)
        if name is not None and thing is not None:
            found[kind] = {name: thing}
    return found


def known_here_alone(config: RunConfig) -> list[str]:
    """Returns the names in `config` that were registered in this process, which other commands do not know."""
    found = registered_for(
        environment=config.env.name,
        estimator=config.credit.estimator,
        filter=config.credit.filter,
        loss=config.learner.loss,
    )
    return [name for things in found.values() for name in things]


def take_registered(sent: Mapping[str, Mapping[str, Any]]) -> None:
    """Registers the result of `registered_for` from another process."""
    for kind, things in sent.items():
        for name, thing in things.items():
            _KINDS[kind].register(name, thing)
