"""Results of scripted players in each game and seat: the floor (random against random), and the best replies to it.

A win rate says little without them: the first seat of tic-tac-toe wins 58 % of all games of random moves. The values
of the default settings are shipped in baselines.json, which `python -m ragen_envs.games.baselines` makes; others are
computed when asked for and kept in the user's cache folder.
"""

from __future__ import annotations

import copy
import inspect
import json
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from importlib import resources

import numpy as np

from ragen_envs.cache import read_cached, write_cached
from ragen_envs.games.exact import Result, best_reply, expected
from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.games.players import PLAYERS, choose
from ragen_envs.games.registry import game_names, make_game
from ragen_envs.seeds import Stream, generator, seed_of
from ragen_envs.splits import Split, instance_seed
from ragen_envs.tree import Tree

RULES_VERSION = 1
"""Part of every cache key; raise it when rules or players change, so that old values are not found again."""
BEST = "best"
"""Stands for a player's name: the best reply, with the greatest return possible against this opponent."""
SHIPPED_FILE = "baselines.json"
MATCHES: dict[str, tuple[tuple[str, str], ...]] = {
    "tic_tac_toe": (
        ("uniform", "uniform"),
        ("minimax", "uniform"),
        ("in_order", "uniform"),
        (BEST, "uniform"),
        (BEST, "minimax"),
    ),
    "connect_four": (("uniform", "uniform"), ("tactician", "uniform")),
    "rock_paper_scissors": (("uniform", "uniform"), (BEST, "uniform")),
    "kuhn_poker": (
        ("uniform", "uniform"),
        ("kuhn_equilibrium", "uniform"),
        (BEST, "uniform"),
        (BEST, "kuhn_equilibrium"),
    ),
    "leduc_holdem": (("uniform", "uniform"), (BEST, "uniform")),
    "prisoners_dilemma": (
        ("uniform", "uniform"),
        ("tit_for_tat", "uniform"),
        (BEST, "uniform"),
        ("tit_for_tat", "tit_for_tat"),
        (BEST, "tit_for_tat"),
    ),
    "frozen_lake_pair": (("uniform", "uniform"), ("pathfinder", "uniform"), ("pathfinder", "pathfinder")),
    "chess": (("uniform", "uniform"), ("greedy_chess", "uniform")),
    "bargaining": (("uniform", "uniform"), ("haggler", "uniform"), ("haggler", "haggler")),
    "negotiation": (("uniform", "uniform"), ("haggler", "uniform"), ("haggler", "haggler")),
    "hanabi": (("uniform", "uniform"), ("hinter", "hinter")),
    "open_spiel": (("uniform", "uniform"),),
}
"""Pairs of player and opponent that are computed for each game, with the player in either seat."""
_GAMES_PLAYED = {
    "connect_four": 1_000,
    "frozen_lake_pair": 1_000,
    "chess": 200,
    "bargaining": 1_000,
    "negotiation": 1_000,
    "hanabi": 1_000,
    "open_spiel": 1_000,
}
"""Number of games played where there are too many positions for exact values. Chosen freely; the standard error stands
beside each value.
"""
_OPENINGS = 100
"""Openings that a rate is averaged over: with 100 its standard error is at most 5 points (√(¼ / 100))."""


def best_script(game: str) -> str | None:
    """Returns the best simple scripted player of a game; None if there is only the random one."""
    named = [player for match in MATCHES.get(game, ()) for player in match if player not in ("uniform", BEST)]
    return next((player for player in named if player in PLAYERS), None)


@dataclass(frozen=True)
class Match:
    """The results of `player` in `seat` against `opponent`: rates in [0, 1] and the mean return."""

    seat: str
    player: str
    opponent: str
    win: float
    draw: float
    loss: float
    success: float
    returned: float
    how: str
    """How it was computed: "exact", or the number of games and the standard error of the return."""


def game_baselines(name: str, settings: Tree | None = None) -> tuple[Match, ...]:
    """Returns the matches of game `name` with `settings`; unless shipped, up to about two minutes the first time.

    Raises:
        ValueError: unknown game or setting.
    """
    return _matches_of(settings_key(name, settings))


def settings_key(name: str, settings: Tree | None = None) -> str:
    """Returns the canonical text of what the matches depend on."""
    parameters = inspect.signature(type(make_game(name, **(settings or {})))).parameters
    full = {key: parameter.default for key, parameter in parameters.items()} | (settings or {})
    return json.dumps({"game": name, "rules_version": RULES_VERSION, "settings": full}, sort_keys=True)


def compute_matches(key: str) -> tuple[Match, ...]:
    """Computes what `key` (from settings_key) asks for; the same values every time."""
    asked = json.loads(key)
    name, game = asked["game"], make_game(asked["game"], **asked["settings"])
    pairs = [(seat, player, other) for player, other in MATCHES[name] for seat in game.seats]
    if name in _GAMES_PLAYED:
        return tuple(_played(game, *pair, _GAMES_PLAYED[name]) for pair in pairs)
    return tuple(_exact(game, *pair) for pair in pairs)


def shipped_matches() -> dict[str, tuple[Match, ...]]:
    """Returns the values that come with the package, by settings key."""
    text = resources.files("ragen_envs.games").joinpath(SHIPPED_FILE).read_text(encoding="utf-8")
    return {key: tuple(Match(**match) for match in matches) for key, matches in json.loads(text).items()}


@lru_cache(maxsize=256)
def _matches_of(key: str) -> tuple[Match, ...]:
    shipped = shipped_matches()
    if key in shipped:
        return shipped[key]
    cached = read_cached("game_baselines", key)
    if cached is not None:
        return tuple(Match(**match) for match in cached["matches"])
    matches = compute_matches(key)
    write_cached("game_baselines", key, {"matches": [asdict(match) for match in matches]})
    return matches


def _exact(game: TextGame, seat: str, player: str, opponent: str) -> Match:
    players = dict.fromkeys(game.seats, PLAYERS[opponent])
    starts = [_test_start(game, seed) for seed in range(_OPENINGS)] if game.has_splits else game.starts()
    if player == BEST:
        result = best_reply(starts, seat, players)
    else:
        result = expected(starts, seat, players | {seat: PLAYERS[player]})
    how = f"exact over {len(starts)} test openings" if game.has_splits else "exact"
    return _match((seat, player, opponent), result, how)


def _played(game: TextGame, seat: str, player: str, opponent: str, games: int) -> Match:
    players = dict.fromkeys(game.seats, PLAYERS[opponent]) | {seat: PLAYERS[player]}
    results = []
    for number in range(games):
        state, rng, returned = _test_start(game, number), generator(Stream.BASELINE_MOVES, number), 0.0
        while state.to_move:
            moves = {mover: choose(players[mover](state, mover), rng) for mover in state.to_move}
            returned += state.play(moves)[seat]
        results.append((returned, *(state.outcome(seat) is each for each in Outcome), state.success(seat)))
    error = float(np.std([result[0] for result in results])) / games**0.5
    means = Result(*(Fraction(sum(column)) / games for column in zip(*results, strict=True)))
    return _match((seat, player, opponent), means, f"{games} games, return ± {error:.3f}")


def _match(who: tuple[str, str, str], result: Result, how: str) -> Match:
    returned, win, draw, loss, success = (round(float(value), 4) for value in result)
    return Match(*who, win, draw, loss, success, returned, how)


def _test_start(game: TextGame, seed: int) -> TextGame:
    start = copy.copy(game)
    start.reset(instance_seed(Split.TEST, seed), Split.TEST, seed_of(Stream.BASELINE_OUTCOME, seed))
    return start


def table(name: str) -> str:
    """Returns the matches of game `name` under its default settings, as a Markdown table."""
    lines = [
        "| seat | player | opponent | win | draw | loss | success | mean return | how |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for match in game_baselines(name):
        rates = (f"{100 * rate:.1f} %" for rate in (match.win, match.draw, match.loss, match.success))
        words = [match.seat, match.player, match.opponent, *rates, f"{match.returned:+.3f}", match.how]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines)


def main() -> None:
    """Recomputes the shipped file (about three minutes on one core)."""
    shipped: Tree = {}
    for name in game_names():
        key = settings_key(name)
        shipped[key] = [asdict(match) for match in compute_matches(key)]
        print(f"{name}: {len(shipped[key])} matches")
    with resources.as_file(resources.files("ragen_envs.games").joinpath(SHIPPED_FILE)) as path:
        path.write_text(json.dumps(shipped, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
