"""Environments by name: Gymnasium ids `ragen/<Name>-v0`, settings presets, and make functions."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from ragen_envs.task import AnyTask, TextTask
from ragen_envs.text import TextEnv, TextLimits, check_limit_names
from ragen_envs.tree import Tree
from ragen_envs.worlds import ENVIRONMENTS, TASKS, construct

if TYPE_CHECKING:
    from ragen_envs.games.game import TextGame


def gym_id(name: str) -> str:
    """Returns the Gymnasium id of an environment: `sokoban` → `ragen/Sokoban-v0`."""
    return f"ragen/{name.title().replace('_', '')}-v0"


def env_names() -> list[str]:
    """Returns the names of the environments for one agent that ship with the package."""
    return list(TASKS)


def check_env_name(name: str) -> str:
    """Returns the short name of an environment, which may be given as a Gymnasium id: `ragen/Sokoban-v0` → `sokoban`.

    Raises:
        ValueError: an unknown name (names the nearest), or a game for several seats.
    """
    by_id = {gym_id(short): short for short in TASKS}
    if name in TASKS or name in by_id:
        return by_id.get(name, name)
    _users_task(name)
    return name


def register_text_env(name: str, world: type[AnyTask] | type[TextGame]) -> None:
    """Registers a user's environment as `name`, for every place that takes an environment's name.

    Args:
        name: letters, digits and `_ . + -`; a name that is registered already gets the new environment.
        world: a TextTask class (one agent) or a TextGame class (several seats); its constructor's parameters are the
            settings that `env.task` may give.

    Raises:
        ValueError: the name of a shipped environment, or no such class.
    """
    ENVIRONMENTS.register(name, world)


def default_limits(name: str) -> dict[str, int]:
    """Returns the default caps of environment `name`, as far as they differ from those of TextLimits."""
    return dict(_task_class(check_env_name(name)).default_limits)


def task_settings(name: str) -> list[str]:
    """Returns the names of the settings of task `name`, without Gymnasium's render_mode."""
    short = check_env_name(name)
    return [setting for setting in inspect.signature(_task_class(short)).parameters if setting != "render_mode"]


def make_task(name: str, **settings: Any) -> AnyTask:
    """Returns the task environment `name`, unwrapped. Raises ValueError for an unknown name or setting."""
    short = check_env_name(name)
    if short not in TASKS:
        task = construct(short, _users_task(short), settings)
        assert isinstance(task, TextTask)
        return task
    allowed = task_settings(short)
    for key in settings:
        if key not in (*allowed, "render_mode"):
            raise ValueError(f"{short}: unknown setting {key!r}; allowed: {', '.join(allowed)}")
    try:
        env = gym.make(gym_id(short), disable_env_checker=True, **settings).unwrapped
    except TypeError as error:
        reason = str(error).split(" was raised from")[0].split(".__init__() ")[-1]
        raise ValueError(f"{short}: {reason}") from None
    assert isinstance(env, TextTask)
    return env


def _task_class(short: str) -> type[AnyTask]:
    if short not in TASKS:
        return _users_task(short)
    task: type[AnyTask] = gym.envs.registration.load_env_creator(TASKS[short])  # type: ignore[assignment]
    return task


def _users_task(name: str) -> type[AnyTask]:
    world = ENVIRONMENTS.resolve(name)
    if not issubclass(world, TextTask):
        raise ValueError(f"{name!r} is a game for several seats; wanted is an environment for one agent")
    return world


def make_text_env(name: str, task: Tree | None = None, limits: Tree | None = None) -> TextEnv:
    """Returns the text environment `name`.

    Args:
        name: short name, Gymnasium id, a name that was registered, or an import path `package.module:Task`.
        task: settings of the task environment.
        limits: fields of TextLimits; what is not given is the task's own default, else that of TextLimits.

    Raises:
        ValueError: unknown name or setting, or caps that make success impossible.
    """
    check_limit_names(TextLimits, limits or {})
    made = make_task(name, **(task or {}))
    return TextEnv(made, TextLimits(**{**made.default_limits, **(limits or {})}))


for _name, _entry_point in TASKS.items():
    gym.register(gym_id(_name), entry_point=_entry_point)
