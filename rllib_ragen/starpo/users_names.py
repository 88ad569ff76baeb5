"""What users registered in Python (`register_estimator("mine", …)`) reaches the processes that a config is sent to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragen_envs.open_names import OpenNames
from ragen_envs.tree import Tree
from ragen_envs.worlds import ENVIRONMENTS
from rllib_ragen.config.environments import worlds
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.credit.filter_rules import FILTERS
from rllib_ragen.credit.registry import ESTIMATORS
from rllib_ragen.learner.losses.registry import LOSSES

Registered = dict[str, Tree]
"""Kind (`estimator`) → name → what was registered."""
_KINDS: dict[str, OpenNames[Any]] = {known.kind: known for known in (ENVIRONMENTS, ESTIMATORS, FILTERS, LOSSES)}


def registered_for(*, environments: Sequence[str | None], estimator: str, filter: str, loss: str) -> Registered:
    """Returns those of the names that were registered in this process, with what they mean.

    Import paths and entry points are not among them: other processes find these themselves.
    """
    asked = [*(("environment", name) for name in environments), ("estimator", estimator), ("filter", filter)]
    found: Registered = {}
    for kind, name in [*asked, ("loss", loss)]:
        thing = None if name is None else _KINDS[kind].registered(name)
        if name is not None and thing is not None:
            found.setdefault(kind, {})[name] = thing
    return found


def known_here_alone(config: RunConfig) -> list[str]:
    """Returns the names of `config` that were registered in this process: other commands do not know them."""
    found = registered_for(
        environments=[world.target.env.name for world in worlds(config)],
        estimator=config.credit.estimator,
        filter=config.credit.filter,
        loss=config.learner.loss,
    )
    return [name for things in found.values() for name in things]


def take_registered(sent: Mapping[str, Mapping[str, Any]]) -> None:
    """Registers in this process what `registered_for` found in another one."""
    for kind, things in sent.items():
        for name, thing in things.items():
            _KINDS[kind].register(name, thing)
