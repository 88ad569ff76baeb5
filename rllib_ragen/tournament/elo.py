"""Elo ratings by maximum likelihood in the Bradley-Terry model, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ANCHOR_ELO = 1000.0
"""Rating of the anchor, the player that the others are compared with: chosen freely."""
_PER_NAT = 400 / math.log(10)
_Z = 1.959964
"""Half width of a 95 % interval in standard errors: the normal distribution's 97.5 % quantile."""
_MAX_STEPS = 200
"""Most Newton steps: chosen freely; a concave likelihood takes some ten."""
_MAX_STEP = 1.0
"""Longest Newton step in nats: chosen freely, so that the first steps, far from the maximum, do not overshoot."""
Array = npt.NDArray[np.float64]
Points = Mapping[tuple[str, str], float]
"""Score of a against b, for every ordered pair (a, b) that has met."""


@dataclass(frozen=True)
class Rating:
    """A player's strength. Of two players 400 apart, the better one scores 10 to 1."""

    elo: float
    low: float
    """Lower end of the 95 % interval of the difference to the anchor; the anchor's own has no width."""
    high: float
    """Upper end of that interval."""


def elo_ratings(
    points: Points,
    anchor: str,
    *,
    anchor_elo: float = ANCHOR_ELO,
    prior_draws: float = 1.0,
    by_instance: Sequence[Points] = (),
) -> dict[str, Rating]:
    """Computes ratings under P(a beats b) = 1 / (1 + 10^((b − a)/400)), with a draw as half a win of each.

    The interval is the normal one, from the curvature of the likelihood at its maximum. Draws make it too wide rather
    than too narrow. Games on one instance are not independent: with `by_instance` it is at least that of the clustered
    sandwich estimator over instances.

    Args:
        points: a's score against b, wins + draws / 2, for every ordered pair (a, b) that has met.
        anchor: the player with rating `anchor_elo`.
        prior_draws: drawn games added to each pair that has met, so that a player who won every game gets a finite
        rating; 0: none, the plain maximum.
        by_instance: `points` of each distinct instance.

    Raises:
        ValueError: the anchor has not played, or ratings are not determined: a player is not linked to the anchor by
        games, or (without prior) has won all of its games or lost them all.
    """
    names = sorted({name for pair in points for name in pair}, key=lambda name: (name != anchor, name))
    if not names or names[0] != anchor:
        raise ValueError(f"the anchor {anchor!r} has played no game")
    index = {name: i for i, name in enumerate(names)}
    scored: Array = np.zeros((len(names), len(names)))
    for (one, other), value in points.items():
        scored[index[one], index[other]] += value
    met = scored + scored.T > 0
    scored = scored + met * prior_draws / 2
    _check_determined(scored, names)
    strengths, covariance = _maximum(scored)
    variances = np.diag(covariance)
    if len(by_instance) > 1:
        variances = np.maximum(variances, _clustered(by_instance, index, strengths, covariance))
    ratings = {}
    for name, i in index.items():
        elo, half = anchor_elo + _PER_NAT * strengths[i], _Z * _PER_NAT * math.sqrt(variances[i])
        ratings[name] = Rating(float(elo), float(elo - half), float(elo + half))
    return ratings


def _maximum(scored: Array) -> tuple[Array, Array]:
    """Finds (strengths in nats, the first 0; their covariance) by Newton's method: the likelihood is concave."""
    count = len(scored)
    games = scored + scored.T
    strengths: Array = np.zeros(count)
    for _ in range(_MAX_STEPS):
        expected = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
        gradient = (scored - games * expected).sum(axis=1)[1:]
        weights = games * expected * (1 - expected)
        information = (np.diag(weights.sum(axis=1)) - weights)[1:, 1:]
        step = np.linalg.solve(information, gradient)
        strengths[1:] += np.clip(step, -_MAX_STEP, _MAX_STEP)
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    covariance: Array = np.zeros((count, count))
    covariance[1:, 1:] = np.linalg.inv(information)
    return strengths, covariance


def _clustered(by_instance: Sequence[Points], index: Mapping[str, int], strengths: Array, covariance: Array) -> Array:
    """Computes the strengths' variances by the sandwich estimator, clustered by instance."""
    expected = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
    pulls: Array = np.zeros((len(by_instance), len(index)))
    for k, points in enumerate(by_instance):
        scored: Array = np.zeros((len(index), len(index)))
        for (one, other), value in points.items():
            scored[index[one], index[other]] += value
        pulls[k] = (scored - (scored + scored.T) * expected).sum(axis=1)
    count = len(by_instance)
    # The anchor's row and column of `covariance` are 0.
    found: Array = np.diag(covariance @ (pulls.T @ pulls) @ covariance) * count / (count - 1)
    return found


def _check_determined(scored: Array, names: list[str]) -> None:
    """Checks that a chain of points leads from each player to each other, so that ratings are unique (Ford, 1957)."""
    for direction in (scored, scored.T):
        reached, frontier = {0}, [0]
        while frontier:
            here = frontier.pop()
            new = [there for there in np.flatnonzero(direction[here] > 0).tolist() if there not in reached]
            reached.update(new)
            frontier += new
        for i, name in enumerate(names):
            if i not in reached:
                raise ValueError(
                    f"the rating of {name!r} is not determined: it is not linked to {names[0]!r} by games in which both"
                    " sides scored"
                )
