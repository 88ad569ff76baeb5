"""What `env.name` may be: this project's text environments, and its games for several seats. Imports nothing heavy."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from envs.games.baselines import BEST, MATCHES
from envs.games.players import PLAYERS
from envs.games.registry import game_names
from envs.registry import check_env_name, env_names, gym_id
from rllib_ragen.config.schema import EMBEDDED_MODEL, RunConfig
from rllib_ragen.games.names import game_name
from rllib_ragen.models.folder import model_folder


def task_name(name: str) -> str:
    """The short name that `name` means: `ragen/Sokoban-v0` → `sokoban`, `TicTacToe`, `tictactoe` → `tic_tac_toe`.

    Raises:
        ValueError: neither an environment nor a game; names the nearest.
    """
    game = game_name(name)
    if game is not None:
        return game
    try:
        return check_env_name(name)
    except ValueError:
        near = difflib.get_close_matches(name, [*env_names(), *game_names()], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"unknown environment {name!r}; allowed: {', '.join(env_names())};"
            f" and the games {', '.join(game_names())}{hint}"
        ) from None


def task_ids() -> dict[str, str]:
    """RLlib id (`ragen/TicTacToe-v0`) of every environment and game → its short name."""
    return {gym_id(name): name for name in (*env_names(), *game_names())}


def best_script(game: str) -> str | None:
    """The best simple scripted player of a game; None if there is only the random one."""
    named = [player for match in MATCHES.get(game, ()) for player in match if player not in ("uniform", BEST)]
    return next((player for player in named if player in PLAYERS), None)


def model_folder_of(config: RunConfig, say: Callable[[str], object] = print) -> Path:
    """Where the run's model is. The embedded model of a game is made if it is not there yet, and `say` is told so."""
    game = game_name(config.env.name)
    if game is None or config.model.path != EMBEDDED_MODEL:
        return model_folder(config.model.path)
    from rllib_ragen.models.tiny.game_model import ensure_game_model, game_model_folder

    folder = game_model_folder(game, config.env.task, config.game_limits())
    if not folder.is_dir():
        say(f"making a small model of {game} from random legal play, once (a minute or two): {folder}")
    return ensure_game_model(game, config.env.task, config.game_limits())
