"""The registry of all environments, for one agent and for several seats, open to a user's own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import gymnasium as gym

from ragen_envs.open_names import OpenNames
from ragen_envs.task import AnyTask, TextTask

if TYPE_CHECKING:
    from ragen_envs.games.game import TextGame

World: TypeAlias = "type[AnyTask] | type[TextGame]"
TASKS: dict[str, str] = {
    "sokoban": "ragen_envs.sokoban.env:SokobanEnv",
    "frozen_lake": "ragen_envs.frozen_lake.env:FrozenLakeTask",
    "bandit": "ragen_envs.bandit.env:BanditEnv",
    "countdown": "ragen_envs.countdown.env:CountdownEnv",
    "sudoku": "ragen_envs.sudoku.env:SudokuEnv",
    "game_2048": "ragen_envs.game_2048.env:Game2048Env",
    "rubik": "ragen_envs.rubik.env:RubikEnv",
    "webshop": "ragen_envs.webshop.env:WebShopEnv",
    "search_qa": "ragen_envs.search_qa.env:SearchQAEnv",
    "maths": "ragen_envs.maths.env:MathsEnv",
}
"""Shipped environments for one agent: short name → import path."""
GAMES: dict[str, str] = {
    "tic_tac_toe": "ragen_envs.games.tic_tac_toe:TicTacToe",
    "connect_four": "ragen_envs.games.connect_four:ConnectFour",
    "rock_paper_scissors": "ragen_envs.games.rock_paper_scissors:RockPaperScissors",
    "kuhn_poker": "ragen_envs.games.kuhn_poker:KuhnPoker",
    "leduc_holdem": "ragen_envs.games.leduc_holdem:LeducHoldem",
    "prisoners_dilemma": "ragen_envs.games.prisoners_dilemma:PrisonersDilemma",
    "frozen_lake_pair": "ragen_envs.games.frozen_lake_pair:FrozenLakePair",
    "chess": "ragen_envs.games.chess:Chess",
    "bargaining": "ragen_envs.games.bargaining:Bargaining",
    "negotiation": "ragen_envs.games.negotiation:Negotiation",
    "hanabi": "ragen_envs.games.hanabi:Hanabi",
    "open_spiel": "ragen_envs.games.open_spiel:OpenSpielGame",
}
"""Shipped games: short name → import path."""


def construct(name: str, world: type, settings: Mapping[str, object]) -> object:
    """Constructs a user's class with `settings`.

    Raises:
        ValueError: settings that its constructor does not take, or any error of the constructor itself; a sentence.
    """
    parameters = inspect.signature(world).parameters
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    for key in settings:
        if key not in parameters and not takes_any:
            raise ValueError(f"{name}: unknown setting {key!r}; allowed: {', '.join(parameters) or 'none'}")
    try:
        return world(**settings)
    except Exception as error:
        said = " ".join(str(error).split())
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{name}: {kind}{said}") from error


def _check(thing: object) -> World:
    # Games import this module by their package's registry.
    from ragen_envs.games.game import TextGame

    if not (isinstance(thing, type) and issubclass(thing, (TextTask, TextGame))):
        raise ValueError(f"must be a class derived from TextTask or TextGame, not {thing!r}")
    lacking = {name for name in dir(thing) if getattr(getattr(thing, name, None), "__isabstractmethod__", False)}
    if issubclass(thing, TextTask):
        lacking |= {name for name in ("reset", "step") if getattr(thing, name) is getattr(gym.Env, name)}
    if lacking:
        raise ValueError(f"the class {thing.__name__} lacks {', '.join(sorted(lacking))}")
    return thing


ENVIRONMENTS: OpenNames[World] = OpenNames("environment", "rllib_ragen.envs", {**TASKS, **GAMES}, _check)
"""All environments by name."""
