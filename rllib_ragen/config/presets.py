"""The settings that ship as YAML: of environments, algorithms (tune_configs/algorithms/) and papers
(tune_configs/presets/).
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
SETTINGS = next(place / "tune_configs" for place in (_PACKAGE, _PACKAGE.parent) if (place / "tune_configs").is_dir())
"""Folder of the shipped settings: inside the installed package, in a checkout beside it."""
_ALGORITHMS = SETTINGS / "algorithms"


def algorithm_names() -> list[str]:
    """Returns the allowed values of `--algorithm`, sorted."""
    return sorted(file.stem for file in _ALGORITHMS.glob("*.yaml"))


def algorithm_file(name: str) -> Path:
    """Returns the file with the settings of an algorithm of `algorithm_names`."""
    return _ALGORITHMS / f"{name}.yaml"


def paper_file(name: str) -> Path:
    """Returns the training settings of a paper, one of `ragen_envs.presets.PAPER_PRESETS`."""
    return SETTINGS / "presets" / f"{name}.yaml"


def env_file(name: str) -> Path:
    """Returns the file with the settings of an environment, by its short name; it need not exist."""
    return SETTINGS / f"{name}.yaml"


def game_defaults() -> Path:
    """Returns the file with the default settings of every game."""
    return SETTINGS / "games" / "defaults.yaml"
