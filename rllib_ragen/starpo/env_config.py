"""The environments of a run as RLlib has them, `env` and `env_config`, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ragen_envs.tree import Tree
from rllib_ragen.config.environments import World
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.schema import EnvSection, RunConfig

_PARTS: Mapping[str, Any] = {"task": {}, "limits": {}, "curriculum": None}
"""Keys of one environment's `env_config`, with what they are where they are not given."""


def of_one(env: EnvSection) -> tuple[Tree, Tree]:
    """Returns (settings of the task, `env_config`) of an environment."""
    limits = env.model_dump()
    task, curriculum = limits.pop("task"), limits.pop("curriculum")
    del limits["name"], limits["reply_prefix"]
    return task, {"task": task, "limits": limits} | ({} if curriculum is None else {"curriculum": curriculum})


def tree_of_one(name: str, env_config: Mapping[str, Any]) -> Tree:
    """Returns what RunConfig says of the environment `name` with `env_config`.

    Raises:
        ConfigError: an unknown key of `env_config`.
    """
    unknown = sorted(env_config.keys() - _PARTS.keys())
    if unknown:
        raise ConfigError(f"env_config: unknown key {unknown[0]!r}; allowed: {', '.join(_PARTS)}")
    task, limits, curriculum = (env_config.get(key, other) for key, other in _PARTS.items())
    return {"env": {"name": name, "task": dict(task), "curriculum": curriculum, **limits}}


def tree_of_several(env_config: Mapping[str, Any], reply_prefix: str) -> Tree:
    """Returns what RunConfig says of the environments in `env_config`.

    Raises:
        ConfigError: something that is said of all of them.
    """
    if reply_prefix:
        raise ConfigError(
            f"env.reply_prefix={reply_prefix!r} with several environments: each has its own; allowed: reply_prefix of"
            " the entries"
        )
    unknown = sorted(env_config.keys() - {"envs"})
    if unknown:
        raise ConfigError(
            f"env_config: {unknown[0]!r} with several environments: each has its own; allowed: the entries' keys"
        )
    return {"envs": env_config["envs"]}


def made_of(mixed: Sequence[World]) -> Tree:
    """Returns what SeveralTextEnvs is made of, by label and level, with prompt_style `auto` decided."""
    return {world.label: [_made_of(level) for level in world.levels] for world in mixed}


def _made_of(level: RunConfig) -> Tree:
    return {"name": level.env.name, "task": level.env.task, "limits": asdict(level.text_limits())}
