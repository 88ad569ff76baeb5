"""Scripted players: baselines, and opponents to train against."""

from __future__ import annotations

from fractions import Fraction

from ragen_envs.games.board import BoardGame
from ragen_envs.games.chances import Chances, Player, choose, evenly, uniform
from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.games.kuhn_poker import KuhnPoker
from ragen_envs.games.matrix import MatrixGame
from ragen_envs.games.scripted import greedy_chess, haggler, hinter, pathfinder
from ragen_envs.games.tic_tac_toe import TicTacToe

__all__ = ["PLAYERS", "Chances", "Player", "choose", "uniform"]

_THIRD = Fraction(1, 3)
_ORDERS = ("A1 C1 B1 B2 C3 A3 B3 A2 C2", "A1 A3 A2 B2 C1 C3 B1 C2 B3")
"""Fixed orders of cells for X and for O: of all orders, those that win most often against random play."""
_VALUES: dict[str, int] = {}
"""Value to the first seat by board (the number of marks says who moves)."""
_KUHN: dict[tuple[str, ...], dict[str, Fraction]] = {
    # Betting so far → chance, by card, of the bolder action (Bet or Call): Kuhn's equilibrium with α = 1/3.
    (): {"Jack": _THIRD, "Queen": Fraction(0), "King": Fraction(1)},
    ("Check", "Bet"): {"Jack": Fraction(0), "Queen": Fraction(2, 3), "King": Fraction(1)},
    ("Check",): {"Jack": _THIRD, "Queen": Fraction(0), "King": Fraction(1)},
    ("Bet",): {"Jack": Fraction(0), "Queen": _THIRD, "King": Fraction(1)},
}


def minimax(game: TextGame, seat: str) -> Chances:
    """Plays tic-tac-toe perfectly: uniformly among the actions with the best minimax value."""
    assert isinstance(game, TicTacToe)
    sign = 1 if seat == game.seats[0] else -1
    values = {action: sign * _value(game.after({seat: action})[0]) for action in game.legal_actions(seat)}
    return evenly([action for action, value in values.items() if value == max(values.values())])


def in_order(game: TextGame, seat: str) -> Chances:
    """Takes the first free cell of a fixed order: the best blind player of tic-tac-toe."""
    assert isinstance(game, TicTacToe)
    order, free = _ORDERS[game.seats.index(seat)].split(), game.legal_actions(seat)
    return {next(cell for cell in order if cell in free): Fraction(1)}


def tactician(game: TextGame, seat: str) -> Chances:
    """Looks one move ahead on a board: wins if possible, else blocks the other's win, else plays at random."""
    assert isinstance(game, BoardGame)
    legal = game.legal_actions(seat)
    wins = [action for action in legal if game.after({seat: action})[0].outcome(seat) is Outcome.WIN]
    return evenly(wins or [action for action in legal if game.would_win(game.other(seat), action)] or legal)


def kuhn_equilibrium(game: TextGame, seat: str) -> Chances:
    """Plays a Nash equilibrium of Kuhn poker (α = 1/3): −1/18 chips for the first seat against a perfect player."""
    assert isinstance(game, KuhnPoker)
    timid, bold = game.legal_actions(seat)
    chance = _KUHN[game.betting][game.deal[game.seats.index(seat)]]
    return {timid: 1 - chance, bold: chance}


def always_defect(game: TextGame, seat: str) -> Chances:
    """Defects in every round of the prisoner's dilemma."""
    return {"Defect": Fraction(1)}


def tit_for_tat(game: TextGame, seat: str) -> Chances:
    """Cooperates first, then does what the other did last."""
    assert isinstance(game, MatrixGame)
    if not game.history:
        return {"Cooperate": Fraction(1)}
    return {game.history[-1][game.seats.index(game.other(seat))]: Fraction(1)}


PLAYERS: dict[str, Player] = {
    "uniform": uniform,
    "minimax": minimax,
    "in_order": in_order,
    "tactician": tactician,
    "kuhn_equilibrium": kuhn_equilibrium,
    "always_defect": always_defect,
    "tit_for_tat": tit_for_tat,
    "pathfinder": pathfinder,
    "greedy_chess": greedy_chess,
    "haggler": haggler,
    "hinter": hinter,
}


def _value(game: BoardGame) -> int:
    """Returns the minimax value to the first seat: +1, 0 or −1."""
    if game.position_key not in _VALUES:
        if not game.to_move:
            outcome = game.outcome(game.seats[0])
            _VALUES[game.position_key] = {Outcome.WIN: 1, Outcome.LOSS: -1}.get(outcome or Outcome.DRAW, 0)
        else:
            mover = game.to_move[0]
            children = [_value(game.after({mover: action})[0]) for action in game.legal_actions(mover)]
            _VALUES[game.position_key] = (max if mover == game.seats[0] else min)(children)
    return _VALUES[game.position_key]
