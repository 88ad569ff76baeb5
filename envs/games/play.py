"""Play a game in the terminal against a scripted player: `python -m ragen_envs.games.play kuhn_poker`."""

from __future__ import annotations

import argparse

import numpy as np

from ragen_envs.games.game import TextGame
from ragen_envs.games.players import PLAYERS, choose, uniform
from ragen_envs.games.registry import game_names, make_game
from ragen_envs.splits import Split


def play(game: TextGame, seat: str, opponent: str, rng: np.random.Generator) -> float:
    """Asks for the moves of `seat` until the game is over → its return. Raises EOFError at the end of the input."""
    total, player = 0.0, PLAYERS[opponent]
    while game.to_move:
        moves = {mover: choose(player(game, mover), rng) for mover in game.to_move if mover != seat}
        if seat in game.to_move:
            print(f"\n{game.observe(seat)}")
            moves[seat] = _asked(game, seat)
        total += game.play(moves)[seat]
    print(f"\n{game.observe(seat)}\n{game.outcome(seat)}, {total:g} in all")
    return total


def _asked(game: TextGame, seat: str) -> str:
    while True:
        action = game.parse_action(seat, input(f"{', '.join(game.legal_actions(seat))}: "))
        if action is not None:
            return action


def main(arguments: list[str] | None = None) -> None:
    """Reads the command line and plays one game."""
    parser = argparse.ArgumentParser(
        prog="python -m ragen_envs.games.play", description="Play a game against a script."
    )
    parser.add_argument("game", help=f"{', '.join(game_names())}, or an import path package.module:Game")
    parser.add_argument("--seat", type=int, default=0, choices=(0, 1), help="your seat")
    parser.add_argument("--opponent", default=uniform.__name__, choices=PLAYERS, help="who plays the other seat")
    parser.add_argument("--seed", type=int, default=0, help="seed of the start and of the opponent's choices")
    options = parser.parse_args(arguments)
    try:
        game = make_game(options.game)
    except ValueError as error:
        parser.error(str(error))
    game.reset(options.seed, Split.TEST, options.seed)
    print(game.rules())
    try:
        play(game, game.seats[options.seat], options.opponent, np.random.default_rng(options.seed))
    except EOFError:
        print("\nnot played to its end")


if __name__ == "__main__":
    main()
