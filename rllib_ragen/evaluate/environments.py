"""What `--env` may be here: environments, games, and their presets (`sokoban/8x8`), and what each means for a model."""

from __future__ import annotations

from ragen_envs.baselines import baselines_for, settings_key
from ragen_envs.presets import preset as env_preset
from ragen_envs.presets import preset_names, split_preset
from ragen_envs.registry import env_names
from ragen_envs.text import TextLimits
from ragen_envs.tree import Tree
from rllib_ragen.config.environments import alone, environments_told, label_of
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import foundation, preset
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name, task_name
from rllib_ragen.run.console import percent
from rllib_ragen.starpo.checks.build_config import build_config

_TALK = ("think", "reply_prefix", "prompt_style")
"""Keys of `env` that are about how a model is made to talk: they are its run's, wherever it plays."""
_TOLD = ("observation", "symbols")
"""Settings of a task that are about how a state is told: a run's own, in other presets of its environment."""


def split_name(name: str) -> tuple[str, str | None]:
    """Returns (environment or game, preset); None: as it ships.

    Raises:
        ConfigError: unknown ones.
    """
    try:
        return (task_name(name), None) if game_name(name) is not None else split_preset(name)
    except ValueError as error:
        raise ConfigError(f"--env: {error}") from None


def base_of(name: str, given: Tree) -> Tree:
    """Returns what lies beneath the config of a model folder in environment `name`: the environment's own settings,
    with the preset's task and caps.
    """
    env, variant = split_name(name)
    base = foundation(given, {"env": {"name": env}})
    return base if variant is None else base | {"env": _section(env, variant)}


def moved_to(name: str, saved: RunConfig) -> Tree:
    """Returns the config of a run, moved to environment `name`: task and caps are that one's own, how the model is made
    to talk and to sample stays the run's.
    """
    env, variant = split_name(name)
    own = preset(env)
    section = own["env"] if variant is None else _section(env, variant)
    if task_name(saved.env.name) == env:
        told = {key: value for key, value in saved.env.task.items() if key in _TOLD}
        section = section | {"task": told | section.get("task", {})}
    talk = {key: getattr(saved.env, key) for key in _TALK} | {"prompt_style": saved.prompt_style}
    seats = saved.multi_agent.model_dump() if game_name(saved.env.name) == env else own.get("multi_agent", {})
    return saved.model_dump() | {"env": section | talk, "multi_agent": seats}


def nearest_to(name: str, saved: RunConfig) -> RunConfig:
    """Returns the config of a run as if it had one environment: of several that of `name` itself, else the first.

    Raises:
        ConfigError: it had not that one, and its environments make the model talk in different ways.
    """
    if not saved.envs:
        return saved
    try:
        env, _ = split_name(name)
    except ConfigError as error:
        raise ConfigError(f"{error}, or one of the run's own: {environments_told(saved)}") from None
    same = [entry for entry in saved.envs if task_name(entry.name) == env]
    for key in () if same else _TALK:
        if len({getattr(entry, key) for entry in saved.envs}) > 1:
            raise ConfigError(
                f"--env {name}: the run was trained on {environments_told(saved)} with different envs[…].{key}, so"
                " it is open which holds elsewhere; allowed are these, and other presets of their environments"
            )
    return alone(saved, (same or saved.envs)[0])


def _section(env: str, variant: str) -> Tree:
    task, limits = env_preset(env, variant)
    return {"name": env, "task": task, **limits}


def is_the_runs_own(name: str, saved: RunConfig) -> bool:
    """Says whether `name` is what the run was trained on, with its own settings; of several environments a label."""
    if saved.envs:
        return name in [label_of(entry) for entry in saved.envs]
    env, variant = split_name(name)
    return variant is None and task_name(saved.env.name) == env


def listing() -> str:
    """Returns every environment and preset, one line each, with what it changes and what can be reached there."""
    lines = [f"{'--env':28} {'random':>8} {'blind':>8} {'best':>8}   settings"]
    for env in env_names():
        for name in preset_names(env):
            task, limits = env_preset(env, name)
            found = baselines_for(env, task, TextLimits(**limits))
            rates = " ".join(f"{percent(rate):>8}" for rate in (found.random, found.blind, found.best))
            own = build_config(preset(env))
            ships = settings_key(env, own.env.task, own.text_limits())
            same = settings_key(env, task, TextLimits(**limits)) == ships and "symbols" not in task
            told = [f"as {env} alone"] * same + [_told(task | limits)] * bool(task | limits)
            lines.append(f"{f'{env}/{name}':28} {rates}   {': '.join(told)}".rstrip())
    return "\n".join([*lines, "Without a preset an environment is played as `run --env` trains it; games go by name."])


def _told(settings: Tree) -> str:
    return ", ".join(
        f"{key} {round(value, 3) if isinstance(value, float) else value}" for key, value in settings.items()
    )
