"""Names that users registered in Python (`register_estimator("mine", …)`), for the processes that get a config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragen_envs.open_names import OpenNames
from ragen_envs.tree import Tree
from ragen_envs.worlds import ENVIRONMENTS
from rllib_ragen.config.environments import worlds
from rllib_ragen.config.reward_section import reward_names
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.credit.filter_rules import FILTERS
from rllib_ragen.credit.registry import ESTIMATORS
from rllib_ragen.credit.rewards.registry import REWARDS
from rllib_ragen.learner.losses.registry import LOSSES

Registered = dict[str, Tree]
"""Kind (`estimator`) → name → what was registered."""
_KINDS: dict[str, OpenNames[Any]] = {
    known.kind: known for known in (ENVIRONMENTS, ESTIMATORS, FILTERS, LOSSES, REWARDS)
}


def registered_for(
    *, environments: Sequence[str | None], estimator: str, filter: str, loss: str, rewards: Sequence[str]
) -> Registered:
    """Returns those of the names that were registered in this process, with what they mean.

    Import paths and entry points are not included: other processes find these themselves.
    """
    asked = {
        "environment": [name for name in environments if name is not None],
        "estimator": [estimator],
        "filter": [filter],
        "loss": [loss],
        "reward": rewards,
    }
    found = {
        kind: {name: thing for name in names if (thing := _KINDS[kind].registered(name)) is not None}
        for kind, names in asked.items()
    }
    return {kind: things for kind, things in found.items() if things}


def known_here_alone(config: RunConfig) -> list[str]:
    """Returns the names in `config` that were registered in this process, which other commands do not know."""
    found = registered_for(
        environments=[world.target.env.name for world in worlds(config)],
        estimator=config.credit.estimator,
        filter=config.credit.filter,
        loss=config.learner.loss,
        rewards=reward_names(config.rewards),
    )
    return [name for things in found.values() for name in things]


def take_registered(sent: Mapping[str, Mapping[str, Any]]) -> None:
    """Registers the result of `registered_for` from another process."""
    for kind, things in sent.items():
        for name, thing in things.items():
            _KINDS[kind].register(name, thing)
