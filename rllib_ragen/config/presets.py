"""The settings that ship as YAML: tune_configs/<environment>.yaml and tune_configs/algorithms/<algorithm>.yaml."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable

_FOLDER = "algorithms"


def algorithm_names() -> list[str]:
    """Allowed values of `--algorithm`, sorted."""
    files = (resources.files("tune_configs") / _FOLDER).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def algorithm_file(name: str) -> Traversable:
    """The settings of an algorithm of `algorithm_names`."""
    return resources.files("tune_configs") / _FOLDER / f"{name}.yaml"


def env_file(name: str) -> Traversable:
    """The settings of an environment, by its short name; the file need not exist."""
    return resources.files("tune_configs") / f"{name}.yaml"


def game_defaults() -> Traversable:
    """What the settings of every game begin with."""
    return resources.files("tune_configs") / "games" / "defaults.yaml"
