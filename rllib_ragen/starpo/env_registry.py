"""This project's environments in the registry that RLlib looks names up in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.tune.registry import register_env

from ragen_envs.games.registry import game_names, make_text_game
from ragen_envs.registry import env_names, gym_id, make_text_env


def register_text_envs() -> None:
    """Makes every text environment and every game known by its id, `ragen/<Name>-v0`."""
    for name in env_names():
        register_env(gym_id(name), _creator(name))
    for name in game_names():
        register_env(gym_id(name), _game_creator(name))


def _creator(name: str) -> Any:
    def create(env_context: Mapping[str, Any]) -> Any:
        return make_text_env(name, env_context.get("task"), env_context.get("limits"))

    return create


def _game_creator(name: str) -> Any:
    def create(env_context: Mapping[str, Any]) -> Any:
        return make_text_game(name, env_context.get("task"), env_context.get("limits"))

    return create
