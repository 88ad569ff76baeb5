"""Elo ratings against hand-computed maxima of the likelihood."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rllib_ragen.tournament.elo import elo_ratings


def test_two_players_by_hand() -> None:
    """3 points of 4: odds 3 to 1. Its information is 4 · ¾ · ¼, so σ = (400 / ln 10) / √0.75."""
    found = elo_ratings({("b", "a"): 3.0, ("a", "b"): 1.0}, "a", prior_draws=0)
    assert found["a"].elo == found["a"].low == found["a"].high == 1000
    assert found["b"].elo == pytest.approx(1000 + 400 * math.log10(3)) == pytest.approx(1190.8485, abs=1e-3)
    half = 1.959964 * 400 / math.log(10) / math.sqrt(0.75)
    assert (found["b"].low, found["b"].high) == pytest.approx((1190.8485 - half, 1190.8485 + half), abs=1e-3)


def test_draws_are_halves_and_equals_are_equal() -> None:
    found = elo_ratings({("a", "b"): 1 + 1 / 2, ("b", "a"): 1 + 1 / 2}, "a", anchor_elo=0)
    assert found["b"].elo == pytest.approx(0)


def test_ratings_that_fit_the_results_exactly_are_found() -> None:
    """Scores are the expected ones of known ratings, so these are the maximum."""
    true = {"uniform": 1000.0, "x": 1150.0, "y": 900.0, "z": 1300.0}
    points = {
        (one, other): (10 + 5 * i) / (1 + 10 ** ((true[other] - true[one]) / 400))
        for i, one in enumerate(true)
        for other in true
        if one != other
    }
    points |= {
        (other, one): points[one, other] * 10 ** ((true[other] - true[one]) / 400)
        for i, one in enumerate(true)
        for other in list(true)[i + 1 :]
    }
    found = elo_ratings(points, "uniform", prior_draws=0)
    assert {name: rating.elo for name, rating in found.items()} == pytest.approx(true)


def test_a_prior_draw_makes_an_unbeaten_player_finite() -> None:
    """10 of 10, and a drawn game: 10½ to ½."""
    found = elo_ratings({("best", "uniform"): 10.0, ("uniform", "best"): 0.0}, "uniform")
    assert found["best"].elo == pytest.approx(1000 + 400 * math.log10(21))


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng, inside = np.random.default_rng(0), 0
    for _ in range(200):
        wins = rng.binomial(60, 1 / (1 + 10 ** (-150 / 400)))
        rating = elo_ratings({("b", "a"): float(wins), ("a", "b"): 60.0 - wins}, "a", prior_draws=0)["b"]
        inside += rating.low <= 1150 <= rating.high
    assert 180 <= inside <= 199


def test_games_on_few_instances_have_a_wider_interval() -> None:
    """100 games are 100 draws on as many openings, and about two where one opening decides 50 of them."""
    together = {("b", "a"): 50.0, ("a", "b"): 50.0}
    plain = elo_ratings(together, "a")["b"]
    win, loss = {("b", "a"): 1.0, ("a", "b"): 0.0}, {("b", "a"): 0.0, ("a", "b"): 1.0}
    many = elo_ratings(together, "a", by_instance=[win, loss] * 50)["b"]
    all_won, all_lost = {("b", "a"): 50.0, ("a", "b"): 0.0}, {("b", "a"): 0.0, ("a", "b"): 50.0}
    few = elo_ratings(together, "a", by_instance=[all_won, all_lost])["b"]
    assert many.high == pytest.approx(plain.high, rel=0.01) and many.elo == few.elo == plain.elo
    # By hand: information ¼ · 101, pulls ±25, variance 2 · (25² + 25²) / (101/4)² = 3.9212, against 0.0396.
    assert few.high - few.elo == pytest.approx(1.959964 * 400 / math.log(10) * math.sqrt(3.9212), rel=1e-3)


def test_ratings_that_games_do_not_determine_are_refused() -> None:
    with pytest.raises(ValueError, match="the rating of 'b' is not determined"):
        elo_ratings({("b", "a"): 3.0, ("a", "b"): 0.0}, "a", prior_draws=0)
    with pytest.raises(ValueError, match="the rating of 'c' is not determined"):
        elo_ratings({("b", "a"): 1.0, ("a", "b"): 1.0, ("c", "d"): 1.0, ("d", "c"): 1.0}, "a")
    with pytest.raises(ValueError, match="the anchor 'uniform' has played no game"):
        elo_ratings({("b", "a"): 1.0, ("a", "b"): 1.0}, "uniform")
