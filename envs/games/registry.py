"""Games by name."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from ragen_envs.games.bargaining import Bargaining
from ragen_envs.games.chess import Chess
from ragen_envs.games.connect_four import ConnectFour
from ragen_envs.games.env import TextGameEnv
from ragen_envs.games.frozen_lake_pair import FrozenLakePair
from ragen_envs.games.game import TextGame
from ragen_envs.games.hanabi import Hanabi
from ragen_envs.games.kuhn_poker import KuhnPoker
from ragen_envs.games.leduc_holdem import LeducHoldem
from ragen_envs.games.limits import GameLimits
from ragen_envs.games.negotiation import Negotiation
from ragen_envs.games.open_spiel import OpenSpielGame
from ragen_envs.games.prisoners_dilemma import PrisonersDilemma
from ragen_envs.games.rock_paper_scissors import RockPaperScissors
from ragen_envs.games.tic_tac_toe import TicTacToe
from ragen_envs.text import check_limit_names

_GAMES: dict[str, type[TextGame]] = {
    "tic_tac_toe": TicTacToe,
    "connect_four": ConnectFour,
    "rock_paper_scissors": RockPaperScissors,
    "kuhn_poker": KuhnPoker,
    "leduc_holdem": LeducHoldem,
    "prisoners_dilemma": PrisonersDilemma,
    "frozen_lake_pair": FrozenLakePair,
    "chess": Chess,
    "bargaining": Bargaining,
    "negotiation": Negotiation,
    "hanabi": Hanabi,
    "open_spiel": OpenSpielGame,
}


def game_names() -> list[str]:
    """Names that `make_game` and `make_text_game` take."""
    return list(_GAMES)


def game_settings(name: str) -> list[str]:
    """Names of the settings that `make_game` takes for `name`. Raises ValueError naming the nearest game."""
    if name not in _GAMES:
        near = difflib.get_close_matches(name, _GAMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown game {name!r}; allowed: {', '.join(_GAMES)}{hint}")
    return list(inspect.signature(_GAMES[name]).parameters)


def make_game(name: str, **settings: object) -> TextGame:
    """The game `name`. Raises ValueError for an unknown name or setting."""
    allowed = game_settings(name)
    for key in settings:
        if key not in allowed:
            raise ValueError(f"{name} has no setting {key!r}; allowed: {', '.join(allowed) or 'none'}")
    return _GAMES[name](**settings)


def make_text_game(name: str, game: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> TextGameEnv:
    """The text environment of game `name`.

    Args:
        name: one of game_names().
        game: settings of the game.
        limits: fields of GameLimits.

    Raises:
        ValueError: unknown name or setting.
    """
    check_limit_names(GameLimits, limits or {})
    return TextGameEnv(make_game(name, **(game or {})), GameLimits(**(limits or {})))
