"""Exact results of small games, by exhaustive search. All figures are fractions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import NamedTuple

from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.games.players import Player


class Result(NamedTuple):
    """A seat's expected return and its chances of each outcome. Compares by return, then wins."""

    returned: Fraction
    win: Fraction
    draw: Fraction
    loss: Fraction
    success: Fraction

    def plus(self, reward: Fraction) -> Result:
        """Returns the result with `reward` added to the return."""
        return self._replace(returned=self.returned + reward)


def expected(starts: Sequence[TextGame], seat: str, players: Mapping[str, Player]) -> Result:
    """Returns the expected result of `seat` if each seat is played by its player, over equally likely `starts`.

    Players may depend only on the game's position_key.
    """
    memo: dict[str, Result] = {}
    return _sum([(Fraction(1, len(starts)), _follow(start, seat, players, memo)) for start in starts])


def best_reply(starts: Sequence[TextGame], seat: str, players: Mapping[str, Player]) -> Result:
    """Returns the result of the best reply of `seat` to the `players` of the other seats.

    With perfect information the best action is sought for each position; else for each information set (the seat's
    observation is all it knows), so that no hidden card guides it.
    """
    share = Fraction(1, len(starts))
    others = {name: player for name, player in players.items() if name != seat}
    if not starts[0].perfect_information:
        return _best_unseeing([(share, start, Fraction(0)) for start in starts], seat, others)
    memo: dict[str, Result] = {}
    return _sum([(share, _follow(start, seat, others, memo)) for start in starts])


def _follow(game: TextGame, seat: str, players: Mapping[str, Player], memo: dict[str, Result]) -> Result:
    """Returns the expected result from here; `seat` takes its best action if it has no player."""
    if not game.to_move:
        return _end(game, seat)
    key = game.position_key
    if key not in memo:
        free = seat in game.to_move and seat not in players
        memo[key] = max(
            _sum(
                [
                    (chance, _follow(child, seat, players, memo).plus(Fraction(rewards[seat])))
                    for chance, child, rewards in _children(game, players, fixed)
                ]
            )
            for fixed in ([{seat: action} for action in game.legal_actions(seat)] if free else [{}])
        )
    return memo[key]


def _best_unseeing(
    states: list[tuple[Fraction, TextGame, Fraction]], seat: str, others: Mapping[str, Player]
) -> Result:
    """Returns the best result summed over (weight, game, return so far), with one action per observation of `seat`."""
    ends: list[tuple[Fraction, Result]] = []
    seen: dict[str, list[tuple[Fraction, TextGame, Fraction]]] = {}
    stack = list(states)
    while stack:
        weight, game, got = stack.pop()
        if not game.to_move:
            ends.append((weight, _end(game, seat).plus(got)))
        elif seat in game.to_move:
            seen.setdefault(game.observe(seat), []).append((weight, game, got))
        else:
            stack += _weighted_children(weight, game, got, seat, others, {})
    for group in seen.values():
        found = []
        for action in group[0][1].legal_actions(seat):
            after = [child for state in group for child in _weighted_children(*state, seat, others, {seat: action})]
            found.append(_best_unseeing(after, seat, others))
        ends.append((Fraction(1), max(found)))
    return _sum(ends)


def _weighted_children(
    weight: Fraction, game: TextGame, got: Fraction, seat: str, others: Mapping[str, Player], fixed: dict[str, str]
) -> list[tuple[Fraction, TextGame, Fraction]]:
    return [
        (weight * chance, child, got + Fraction(rewards[seat]))
        for chance, child, rewards in _children(game, others, fixed)
    ]


def _children(
    game: TextGame, players: Mapping[str, Player], fixed: Mapping[str, str]
) -> Iterator[tuple[Fraction, TextGame, dict[str, float]]]:
    """Yields (chance, game, rewards) after each joint move; seats in `fixed` take that action, others their
    player's.
    """
    seats = game.to_move
    choices = [[(fixed[seat], Fraction(1))] if seat in fixed else players[seat](game, seat).items() for seat in seats]
    for joint in product(*choices):
        chance = prod((share for _, share in joint), start=Fraction(1))
        if chance:
            yield chance, *game.after(dict(zip(seats, (action for action, _ in joint), strict=True)))


def _end(game: TextGame, seat: str) -> Result:
    outcome = game.outcome(seat)
    won, drawn, lost = (Fraction(outcome is each) for each in (Outcome.WIN, Outcome.DRAW, Outcome.LOSS))
    return Result(Fraction(0), won, drawn, lost, Fraction(game.success(seat)))


def _sum(weighted: list[tuple[Fraction, Result]]) -> Result:
    columns = zip(*([weight * value for value in result] for weight, result in weighted), strict=True)
    return Result(*(sum(column, start=Fraction(0)) for column in columns))
