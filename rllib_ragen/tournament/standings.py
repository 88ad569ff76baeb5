"""The results of a tournament: per seat and opponent, ratings, exploitability; as JSON and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ragen_envs.games.chances import Player
from ragen_envs.games.exploitability import EXACT_GAMES, FrequencyTable, decision_points, exploitability
from ragen_envs.games.game import TextGame
from rllib_ragen.rollout.statistics import clustered_error
from rllib_ragen.run.console import percent
from rllib_ragen.tournament.elo import Rating, elo_ratings
from rllib_ragen.tournament.match_session import Record
from rllib_ragen.tournament.matches import score


@dataclass(frozen=True)
class SeatResult:
    """The results of `player` in `seat` against `opponent`: counts of games, and means over distinct instances."""

    player: str
    seat: str
    opponent: str
    games: int
    wins: int
    draws: int
    losses: int
    cut_off: int
    """Number of games without outcome, because of the cap on turns."""
    return_mean: float
    return_error: float | None
    """Standard error over distinct instances; None for fewer than two."""
    success: float
    """Share of successful games."""
    valid: float
    """Share of the replies that named a legal action."""
    instances: int
    """Number of distinct instances among the games."""


@dataclass(frozen=True)
class Exploited:
    """The exploitability of a player's move frequencies."""

    exploitability: float
    nash_conv: float
    seen: int
    """Number of information sets that the player was in; in the others it counts as uniform."""
    situations: int
    decisions: int
    """Number of moves that were counted; 0: the player is a script, and the value exact."""


def seat_results(records: Sequence[Record], game: TextGame) -> list[SeatResult]:
    """Returns the results of every (player, seat, opponent), in order of their first game, without failed games."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in (one for one in records if not one.error):
        first, second = record.fixture.players
        for player, seat, opponent in ((first, game.seats[0], second), (second, game.seats[1], first)):
            groups.setdefault((player, seat, opponent), []).append(record)
    return [_seat_result(*who, group) for who, group in groups.items()]


def ratings(records: Sequence[Record], game: TextGame, anchor: str) -> dict[str, Rating]:
    """Computes Elo ratings from all games that did not fail and were not cut off; intervals over distinct instances.

    Raises ValueError as `elo_ratings` does.
    """
    by_instance: dict[str, dict[tuple[str, str], float]] = {}
    for record in (one for one in records if not one.error):
        first, second = record.fixture.players
        points = by_instance.setdefault(record.instance, {})
        for player, seat, opponent in ((first, game.seats[0], second), (second, game.seats[1], first)):
            points[player, opponent] = points.get((player, opponent), 0.0) + (score(record.outcomes[seat]) or 0.0)
    together: dict[tuple[str, str], float] = {}
    for points in by_instance.values():
        for pair, scored in points.items():
            together[pair] = together.get(pair, 0.0) + scored
    return elo_ratings(together, anchor, by_instance=list(by_instance.values()))


def exploited(records: Sequence[Record], game: TextGame, name: str, player: str) -> Exploited | None:
    """Computes the exploitability of the move frequencies of `player` in all its games; None for too large games.

    Noise in the frequencies is exploited, too: the value is biased upwards, less with more games.
    """
    if name not in EXACT_GAMES:
        return None
    table, decisions = FrequencyTable(), 0
    for record in records:
        seats = record.seats_of(player, game.seats)
        moves = [(move.seen, move.action) for move in record.moves if move.seat in seats and move.action]
        table.add(moves)
        decisions += len(moves)
    found = exploitability(name, table.player)
    return Exploited(found.mean, found.nash_conv, *table.coverage(name), decisions)


def scripts_exploited(name: str, script: Player) -> Exploited | None:
    """Computes the exact exploitability of a scripted player; None for too large games."""
    if name not in EXACT_GAMES:
        return None
    found, situations = exploitability(name, script), len(decision_points(name))
    return Exploited(found.mean, found.nash_conv, situations, situations, 0)


def print_results(console: Console, results: Sequence[SeatResult], models: Sequence[str]) -> None:
    """Prints win, draw and loss of each of `models`, per seat and opponent."""
    table = Table(title="Results", title_justify="left")
    for heading in ("player", "seat", "opponent"):
        table.add_column(heading, overflow="fold")
    for heading in ("games", "instances", "win", "draw", "loss", "mean return", "success", "legal replies"):
        table.add_column(heading, justify="right")
    for one in results:
        if one.player in models:
            rates = (percent(count / one.games) for count in (one.wins, one.draws, one.losses))
            error = "n/a" if one.return_error is None else f"{one.return_error:.3f}"
            returned = f"{one.return_mean:+.3f} ± {error}"
            table.add_row(
                *(_plain(word) for word in (one.player, one.seat, one.opponent)),
                str(one.games), str(one.instances), *rates, returned, percent(one.success), percent(one.valid),
            )  # fmt: skip
    console.print(table)


def print_ratings(console: Console, found: dict[str, Rating], anchor: str, leaks: dict[str, Exploited | None]) -> None:
    """Prints the ratings, best first, with exploitability if known."""
    exact = any(leaks.values())
    table = Table(title=f"Elo, {_plain(anchor)} = {found[anchor].elo:g}", title_justify="left")
    table.add_column("player", overflow="fold")
    table.add_column("Elo", justify="right")
    table.add_column("95 % interval", justify="right")
    if exact:
        table.add_column("exploitability", justify="right")
        table.add_column("situations seen", justify="right")
    for name, rating in sorted(found.items(), key=lambda item: -item[1].elo):
        row = [_plain(name), f"{rating.elo:.0f}", "" if name == anchor else f"{rating.low:.0f} … {rating.high:.0f}"]
        if exact:
            leak = leaks.get(name)
            row += [f"{leak.exploitability:.3f}", f"{leak.seen}/{leak.situations}"] if leak else ["", ""]
        table.add_row(*row)
    console.print(table)


def _seat_result(player: str, seat: str, opponent: str, group: list[Record]) -> SeatResult:
    scores = [score(record.outcomes[seat]) for record in group]
    returns: dict[str, list[float]] = {}
    for record in group:
        returns.setdefault(record.instance, []).append(record.returns[seat])
    means = [float(np.mean(own)) for own in returns.values()]
    replies = [move.valid for record in group for move in record.moves if move.seat == seat]
    return SeatResult(
        player=player,
        seat=seat,
        opponent=opponent,
        games=len(group),
        wins=scores.count(1.0),
        draws=scores.count(0.5),
        losses=scores.count(0.0),
        cut_off=scores.count(None),
        return_mean=float(np.mean(means)),
        return_error=clustered_error(means) if len(means) > 1 else None,
        success=float(np.mean([record.success[seat] for record in group])),
        valid=float(np.mean(replies)) if replies else 1.0,
        instances=len(means),
    )


def _plain(text: Any) -> str:
    """Escapes brackets, which rich would read as markup."""
    from rich.markup import escape

    return escape(str(text))
