"""A search space over a run's config keys, read from YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from ragen_envs.tree import Tree
from rllib_ragen.config.command_line import key_names
from rllib_ragen.config.errors import ConfigError, nearest
from rllib_ragen.config.load import merge, nest

_KINDS = ("choice", "uniform", "loguniform", "int", "logint")


@dataclass(frozen=True)
class Dimension:
    """A dimension of the space: a key, or several that change together."""

    keys: tuple[str, ...]
    distribution: BaseDistribution

    def settings(self, value: Any) -> Tree:
        """Returns the config tree that sets the keys to Optuna's `value`."""
        values = json.loads(value) if isinstance(value, str) and value.startswith(("[", "{")) else value
        return merge(*map(nest, self.keys, values if len(self.keys) > 1 else [values]))

    def samples(self) -> list[Any]:
        """Returns the values to check before a sweep starts: every choice, or both ends."""
        found = self.distribution
        if isinstance(found, CategoricalDistribution):
            return list(found.choices)
        assert isinstance(found, (FloatDistribution, IntDistribution))
        return [found.low, found.high]


def read_space(tree: Mapping[str, object], known_keys: Sequence[str]) -> dict[str, Dimension]:
    """Reads the dimensions, by their names in the file.

    A name is a key of the config (`learner.lr`), or several separated by commas, whose values are lists. Each has one
    of `choice: [a, b, …]`, `uniform: [low, high]`, `loguniform`, `int` and `logint`, both ends included.

    Raises:
        ConfigError: an empty space, an unknown key, or an invalid dimension.
    """
    if not tree:
        raise ConfigError("space: is empty; give at least one key, as in `learner.lr: {loguniform: [1e-5, 1e-3]}`")
    space = {name: _dimension(name, given, known_keys) for name, given in tree.items()}
    keys = [key for dimension in space.values() for key in dimension.keys]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"space: {key} is in two dimensions")
    return space


def _dimension(name: str, given: object, known_keys: Sequence[str]) -> Dimension:
    keys = tuple(key.strip() for key in name.split(","))
    for key in keys:
        # Below env.task everything is the task's business.
        if key not in known_keys and not key.startswith("env.task."):
            raise ConfigError(f"space: unknown key {key!r}; {nearest(key, list(known_keys))}")
    if not isinstance(given, Mapping) or len(given) != 1 or next(iter(given)) not in _KINDS:
        raise ConfigError(f"space.{name}: must be one of {', '.join(f'{kind}: […]' for kind in _KINDS)}, got {given!r}")
    kind, values = next(iter(given.items()))
    if not isinstance(values, list) or not values:
        raise ConfigError(f"space.{name}: {kind} must have a list, got {values!r}")
    if kind == "choice":
        return Dimension(keys, _choices(name, keys, values))
    if len(keys) > 1:
        raise ConfigError(f"space.{name}: several keys change together by choice only")
    return Dimension(keys, _range(name, kind, values))


def _choices(name: str, keys: tuple[str, ...], values: list[Any]) -> CategoricalDistribution:
    for value in values:
        if len(keys) > 1 and not (isinstance(value, list) and len(value) == len(keys)):
            raise ConfigError(f"space.{name}: each choice must be a list of {len(keys)} values, got {value!r}")
    # Optuna stores plain values only.
    plain = [json.dumps(value) if isinstance(value, (list, dict)) else value for value in values]
    if len(set(map(repr, plain))) < len(plain):
        raise ConfigError(f"space.{name}: a choice is given twice")
    return CategoricalDistribution(plain)


def _range(name: str, kind: str, values: list[Any]) -> BaseDistribution:
    whole = kind in ("int", "logint")
    numbers = all(isinstance(v, int if whole else (int, float)) and not isinstance(v, bool) for v in values)
    if len(values) != 2 or not numbers or values[0] >= values[1] or (kind.startswith("log") and values[0] <= 0):
        wanted = "two whole numbers" if whole else "two numbers"
        positive = ", both > 0" if kind.startswith("log") else ""
        raise ConfigError(f"space.{name}: {kind} must have {wanted}, the smaller first{positive}; got {values!r}")
    if whole:
        return IntDistribution(values[0], values[1], log=kind == "logint")
    return FloatDistribution(float(values[0]), float(values[1]), log=kind == "loguniform")


def known_keys() -> list[str]:
    """Returns the dotted keys that a space may name."""
    return [key for key in key_names() if key not in ("name", "results_dir", "seed")]
