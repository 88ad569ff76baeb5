"""The type of scripted players: a function of (game, seat) that gives the chance of each legal action."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

import numpy as np

from ragen_envs.games.game import TextGame

Chances = Mapping[str, Fraction]
Player = Callable[[TextGame, str], Chances]
"""A policy for one seat, which uses only what that seat may see."""


def evenly(actions: Iterable[str]) -> Chances:
    """Returns equal chances for all of `actions`."""
    actions = list(actions)
    return dict.fromkeys(actions, Fraction(1, len(actions)))


def uniform(game: TextGame, seat: str) -> Chances:
    """Returns equal chances for all legal actions."""
    return evenly(game.legal_actions(seat))


def choose(chances: Chances, rng: np.random.Generator) -> str:
    """Draws one action by its chance."""
    actions = list(chances)
    return actions[int(rng.choice(len(actions), p=[float(chances[action]) for action in actions]))]
