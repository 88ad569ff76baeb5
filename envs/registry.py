"""Environments by name: Gymnasium ids `ragen/<Name>-v0`, settings presets, and make functions."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

import gymnasium as gym

from ragen_envs.task import TextTask
from ragen_envs.text import TextEnv, TextLimits, check_limit_names

_TASKS: dict[str, str] = {
    "sokoban": "ragen_envs.sokoban.env:SokobanEnv",
    "frozen_lake": "ragen_envs.frozen_lake.env:FrozenLakeTask",
    "bandit": "ragen_envs.bandit.env:BanditEnv",
    "countdown": "ragen_envs.countdown.env:CountdownEnv",
    "sudoku": "ragen_envs.sudoku.env:SudokuEnv",
    "game_2048": "ragen_envs.game_2048.env:Game2048Env",
    "rubik": "ragen_envs.rubik.env:RubikEnv",
    "webshop": "ragen_envs.webshop.env:WebShopEnv",
    "search_qa": "ragen_envs.search_qa.env:SearchQAEnv",
}


def gym_id(name: str) -> str:
    """`sokoban` → `ragen/Sokoban-v0`."""
    return f"ragen/{name.title().replace('_', '')}-v0"


def env_names() -> list[str]:
    """Names that `make_task` and `make_text_env` take (Gymnasium ids are taken too)."""
    return list(_TASKS)


def check_env_name(name: str) -> str:
    """The short name of `name` (short name or Gymnasium id). Raises ValueError naming the nearest one."""
    by_id = {gym_id(short): short for short in _TASKS}
    if name in _TASKS or name in by_id:
        return by_id.get(name, name)
    near = difflib.get_close_matches(name, [*_TASKS, *by_id], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown environment {name!r}; allowed: {', '.join(_TASKS)}{hint}")


def default_limits(name: str) -> dict[str, int]:
    """Caps with which the environment `name` is played where none are given, as far as they differ from TextLimits'."""
    return dict(gym.envs.registration.load_env_creator(_TASKS[check_env_name(name)]).default_limits)


def task_settings(name: str) -> list[str]:
    """Names of the settings that `make_task` takes for `name`, beside Gymnasium's render_mode."""
    task = gym.envs.registration.load_env_creator(_TASKS[check_env_name(name)])
    return [name for name in inspect.signature(task).parameters if name != "render_mode"]


def make_task(name: str, **settings: Any) -> TextTask[Any]:
    """The task environment `name`, unwrapped. Raises ValueError for an unknown name or setting."""
    short = check_env_name(name)
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


def make_text_env(name: str, task: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> TextEnv:
    """The text environment `name`.

    Args:
        name: short name or Gymnasium id.
        task: settings of the task environment.
        limits: fields of TextLimits; what is not given is the task's own default, else that of TextLimits.

    Raises:
        ValueError: unknown name or setting, or caps that make success impossible.
    """
    check_limit_names(TextLimits, limits or {})
    made = make_task(name, **(task or {}))
    return TextEnv(made, TextLimits(**{**made.default_limits, **(limits or {})}))


for _name, _entry_point in _TASKS.items():
    gym.register(gym_id(_name), entry_point=_entry_point)
