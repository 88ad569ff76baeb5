"""Users' code that must be sent to a run's processes on other machines."""

from __future__ import annotations

import importlib.util
import os
import sysconfig
from pathlib import Path

from rllib_ragen.config.environments import worlds
from rllib_ragen.config.reward_section import reward_names
from rllib_ragen.config.schema import RunConfig

SET_IN_RAY_JOBS = "RAY_JOB_CONFIG_JSON_ENV_VAR"


def users_modules(config: RunConfig) -> list[str]:
    """Returns folders and files of the top-level modules that the config's import paths name, for Ray's `py_modules`.

    Installed packages are not included: they are on every node, as this one is. In a Ray job the whole working
    directory is sent, and nothing else.
    """
    if SET_IN_RAY_JOBS in os.environ:
        return []
    credit, rewards = config.credit, reward_names(config.rewards)
    environments = [world.target.env.name for world in worlds(config)]
    names = (*environments, credit.estimator, credit.filter, config.learner.loss, *rewards)
    tops = {name.partition(":")[0].partition(".")[0] for name in names if ":" in name}
    found = []
    for top in sorted(tops):
        spec = importlib.util.find_spec(top)
        places = [] if spec is None else list(spec.submodule_search_locations or [spec.origin or ""])
        found += [place for place in places if place.endswith(".py") or Path(place).is_dir()]
    return [place for place in found if not _is_installed(Path(place))]


def _is_installed(place: Path) -> bool:
    installed = {Path(path) for key, path in sysconfig.get_paths().items() if key in ("stdlib", "purelib", "platlib")}
    return any(place.is_relative_to(path) for path in installed)
