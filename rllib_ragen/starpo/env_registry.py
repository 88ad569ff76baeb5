"""Text environments in RLlib's registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.tune.registry import register_env

from ragen_envs.games.registry import game_names, make_text_game
from ragen_envs.registry import env_names, make_text_env
from ragen_envs.several import SeveralTextEnvs
from rllib_ragen.config.task_names import game_name, task_id, task_name

SEVERAL = "ragen/*"
"""RLlib's id of several environments in one run, which no name can make; which they are, `env_config` says."""


def register_text_envs() -> None:
    """Makes every shipped environment and game known by its id, `ragen/<Name>-v0`, and several at once by `SEVERAL`."""
    register_env(SEVERAL, _several)
    for name in (*env_names(), *game_names()):
        register_task(name)


def register_task(name: str) -> str:
    """Registers one environment or game with RLlib → its id.

    Raises:
        ValueError: an unknown name, or an import path without a target; one sentence.
    """
    short, env_id = task_name(name), task_id(name)
    register_env(env_id, _creator(short) if game_name(short) is None else _game_creator(short))
    return env_id


def _creator(name: str) -> Any:
    def create(env_context: Mapping[str, Any]) -> Any:
        if "worlds" in env_context:
            return _several(env_context)
        return make_text_env(name, env_context.get("task"), env_context.get("limits"))

    return create


def _several(env_context: Mapping[str, Any]) -> SeveralTextEnvs:
    return SeveralTextEnvs(env_context["worlds"])


def _game_creator(name: str) -> Any:
    def create(env_context: Mapping[str, Any]) -> object:
        return make_text_game(name, env_context.get("task"), env_context.get("limits"))

    return create
