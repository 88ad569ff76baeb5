"""What is evaluated: every model in every environment, each with a config of its own, checked before anything."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.config.command_line import read_layers
from rllib_ragen.config.environments import environments_told, picked
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import flatten, foundation, merge
from rllib_ragen.config.paths import EMBEDDED_MODEL, enter_model
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.evaluate.environments import base_of, is_the_runs_own, moved_to, nearest_to
from rllib_ragen.models.tiny.run_model import check_taught, run_model_folder
from rllib_ragen.run.folder import RunFolder, SavedState, is_run_folder
from rllib_ragen.starpo.checkpoint.saved_policy import saved_policy
from rllib_ragen.starpo.checks.build_config import build_config


@dataclass(frozen=True)
class Job:
    """One model in one environment."""

    model: str
    """What the model is called in tables."""
    env: str
    """What the environment is called: as it was asked for, else by its name."""
    config: RunConfig
    saved: SavedState | None
    """The checkpoint to load into the config's model; None: the model's folder as it is."""
    iteration: int
    """Updates that the model has had in its run; 0: a model folder."""
    folder: Path | None
    """The run's."""
    warning: str = ""
    label: str | None = None
    """Label of the one of the config's several environments that is played; None: all, or there is only one."""


def plan(options: argparse.Namespace) -> list[Job]:
    """Returns all jobs, model by model.

    Raises:
        ConfigError: whatever is wrong, in one sentence.
    """
    given = merge(*read_layers(options))
    asked = options.envs or ([str(flatten(given)["env.name"])] if "env.name" in flatten(given) else [None])
    section = given.get("env")
    if isinstance(section, dict):
        given = given | {"env": {key: value for key, value in section.items() if key != "name"}}
    models = [enter_model(one) for one in options.models]
    for what, listed in (("model", models), ("environment", asked)):
        if len(set(listed)) < len(listed):
            raise ConfigError(f"{max(listed, key=listed.count)!r}: this {what} is named twice")
    names = _names(models)
    return [
        _job(model, names[model], env, given, newest=options.checkpoint == "newest")
        for model in models
        for env in asked
    ]


def _names(models: Sequence[str]) -> dict[str, str]:
    """Returns a short name for each model: the end of its path that no other one shares."""
    parts = {model: Path(model).parts for model in models}

    def end(model: str) -> str:
        lengths = range(1, len(parts[model]) + 1)
        ends = (parts[model][-length:] for length in lengths)
        return "/".join(next(e for e in ends if sum(other[-len(e) :] == e for other in parts.values()) == 1))

    return {model: end(model) for model in models}


def _job(model: str, name: str, env: str | None, given: Tree, *, newest: bool) -> Job:
    path = Path(model)
    if not is_run_folder(path):
        base = foundation(given) if given.get("envs") else base_of(env or RunConfig().env.name, given)
        config = build_config(base, given, {"model": {"path": model}})
        shown, label = env or environments_told(config), _label(env, config)
        return Job(name, shown, config, None, 0, None, untaught(config, config), label)
    folder = RunFolder.open(path)
    saved = folder.config()
    best = None if newest else folder.best_checkpoint()
    state = best or folder.newest_checkpoint()
    if env is None or is_the_runs_own(env, saved):
        config = build_config(saved.model_dump(), given)
        shown = env or environments_told(config)
        return Job(name, shown, config, state, state.iteration, path, label=_label(env, config))
    try:
        policy = saved_policy(state.path)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    own_model = {"model": {"path": str(policy.folder)}}
    saved = nearest_to(env, saved)
    config = build_config(moved_to(env, saved), given, own_model)
    # Adapters belong to the model's folder, and come from the checkpoint.
    start = None if policy.adapter is None else state
    return Job(name, env, config, start, state.iteration, path, untaught(saved, config))


def _label(env: str | None, config: RunConfig) -> str | None:
    """Returns `env` as the label of one of several environments. Raises ConfigError if there is none of that name."""
    if not config.envs or env is None:
        return None
    picked(config, env)
    return env


def untaught(talks: RunConfig, config: RunConfig) -> str:
    """Returns a warning where the embedded model, or one that was trained from it, plays what it was never shown.

    Args:
        talks: config that the model comes from.
        config: what it is to play.
    """
    if talks.model.path != EMBEDDED_MODEL:
        return ""
    here = config.model_copy(update={"model": talks.model})
    try:
        check_taught(here)
        # Bandit, Countdown and every game have embedded models of their own.
        known = run_model_folder(talks) == run_model_folder(here)
    except ValueError:
        known = False
    if known:
        return ""
    played = environments_told(config)
    return f"this embedded model was not taught {played}: most of its replies there will be no valid action"
