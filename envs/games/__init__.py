"""Games for several seats as text: rules, prompts and replies per seat, PettingZoo adapters, baselines."""

from envs.games.env import GameStep, TextGameEnv
from envs.games.game import Outcome, TextGame
from envs.games.limits import GameLimits
from envs.games.registry import game_names, make_game, make_text_game

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
