"""Where a run's model is: the folder that `model.path` names; for `tiny`, the small model that was taught the task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ragen_envs.registry import gym_id
from rllib_ragen.config.paths import EMBEDDED_MODEL
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.tiny.game_model import ensure_game_model, game_model_folder

_OF_WORDS = [name for task in ("bandit", "countdown") for name in (task, gym_id(task))]
"""Tasks whose names and numbers must be copied: a model of their own learns that, beside Sokoban there is no room."""
_WORDS = Path(__file__).parent / "words"


def run_model_folder(config: RunConfig) -> Path:
    """Says where the run's model is; the small model of a game need not be there yet (`ensure_run_model`)."""
    game = game_name(config.env.name)
    if config.model.path != EMBEDDED_MODEL:
        return model_folder(config.model.path)
    if game is None:
        return _WORDS if config.env.name in _OF_WORDS else model_folder(EMBEDDED_MODEL)
    return game_model_folder(game, config.env.task, config.game_limits())


def ensure_run_model(config: RunConfig, say: Callable[[str], object] = print) -> Path:
    """Says where the run's model is. The small model of a game is made if it is not there yet, and `say` is told so."""
    folder = run_model_folder(config)
    game = game_name(config.env.name)
    if game is None or config.model.path != EMBEDDED_MODEL:
        return folder
    if not folder.is_dir():
        say(f"making a small model of {game} from random legal play, once (a minute or two): {folder}")
    return ensure_game_model(game, config.env.task, config.game_limits())
