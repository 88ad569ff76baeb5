"""Games for several seats as text: rules, prompts and replies per seat, PettingZoo adapters, baselines."""

from ragen_envs.games.env import GameStep, TextGameEnv
from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.games.limits import GameLimits
from ragen_envs.games.registry import game_names, make_game, make_text_game

__all__ = [
    "GameLimits",
    "GameStep",
    "Outcome",
    "TextGame",
    "TextGameEnv",
    "game_names",
    "make_game",
    "make_text_game",
]
