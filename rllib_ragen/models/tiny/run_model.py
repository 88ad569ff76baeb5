"""The folder of a run's model: that of `model.path`; for `tiny`, the small model that was trained for the task."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ragen_envs.registry import gym_id
from rllib_ragen.config.environments import worlds
from rllib_ragen.config.paths import EMBEDDED_MODEL
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name, is_shipped, task_name
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.tiny.game_model import ensure_game_model, game_model_folder

_OF_WORDS = [name for task in ("bandit", "countdown") for name in (task, gym_id(task))]
"""Tasks whose names and numbers must be copied: they have a model of their own, as the embedded one has no room."""
_WORDS = Path(__file__).parent / "words"


def run_model_folder(config: RunConfig) -> Path:
    """Says where the run's model is; the small model of a game need not be there yet (`ensure_run_model`)."""
    if config.envs:
        # Of several environments no one is a game, and `check_taught` has seen that all have the same model.
        return run_model_folder(worlds(config)[0].target)
    game = game_name(config.env.name)
    if config.model.path != EMBEDDED_MODEL:
        return model_folder(config.model.path)
    if game is None:
        return _WORDS if config.env.name in _OF_WORDS else model_folder(EMBEDDED_MODEL)
    return game_model_folder(game, config.env.task, config.game_limits())


def ensure_run_model(config: RunConfig, say: Callable[[str], object] = print) -> Path:
    """Returns the folder of the run's model, after making the small model of a game if necessary, which `say`
    reports.
    """
    folder = run_model_folder(config)
    if config.envs:
        return folder
    game = game_name(config.env.name)
    if game is None or config.model.path != EMBEDDED_MODEL:
        return folder
    if not folder.is_dir():
        say(f"making a small model of {game} from random legal play, once (a minute or two): {folder}")
    return ensure_game_model(game, config.env.task, config.game_limits())


def check_taught(config: RunConfig) -> None:
    """Refuses the small model for tasks and reply forms that it was not trained for: no reply would be valid.

    It does not check users' environments, and games have their own small models.

    Raises:
        ValueError: one sentence that names the key.
    """
    if config.envs and config.model.path == EMBEDDED_MODEL:
        _check_taught_all(config)
        return
    name, form = config.env.name, config.env.think
    if config.model.path != EMBEDDED_MODEL or game_name(name) is not None or not is_shipped(name):
        return
    taught = [
        (recipe["env"], recipe["think"])
        for folder in (model_folder(EMBEDDED_MODEL), _WORDS)
        for recipe in json.loads((folder / "made.json").read_text(encoding="utf-8"))["taught"]
    ]
    if (task_name(name), form) not in taught:
        tasks = ", ".join(dict.fromkeys(env for env, think in taught if think is form))
        raise ValueError(
            f"model.path={EMBEDDED_MODEL} with env.name={name}: the embedded model was not taught it; give --model"
            f" path/to/model, or one of {tasks}"
        )


def _check_taught_all(config: RunConfig) -> None:
    """Does the same for several environments, which must have one model."""
    found = worlds(config)
    for number, world in enumerate(found):
        try:
            check_taught(world.target)
        except ValueError as error:
            raise ValueError(str(error).replace("env.name", f"envs[{number}].name")) from None
    folders = {run_model_folder(world.target): world.label for world in reversed(found)}
    if len(folders) > 1:
        raise ValueError(
            f"model.path={EMBEDDED_MODEL} with envs: {' and '.join(sorted(folders.values()))} have different small"
            f" models; give --model path/to/model, or environments of one: all but {' and '.join(_OF_WORDS[::2])}, or"
            " these"
        )
