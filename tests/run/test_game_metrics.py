"""The metrics of games: counted by hand, told in docs/diagnostics.md, and grouped in TensorBoard."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rllib_ragen.diagnostics.metrics import METRICS, heading_of
from rllib_ragen.learner.update_metrics import LEARNER_METRICS, learner_metrics
from rllib_ragen.rollout.game_answers import GameSpec
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.run.evaluation import Evaluation, outcome_lines
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.matchmaking.games import GameMatchmaker, seat_statistics
from rllib_ragen.types import StopReason, Trajectory
from tests.credit.build import trajectory


def played(seat: str, outcome: str, gained: float, reason: StopReason = StopReason.FAILED) -> Trajectory:
    built = trajectory("g", [(2, 3, gained)], reason)
    built.agent_id, built.outcome = seat, outcome
    return built


def test_shares_and_returns_by_hand() -> None:
    games = [
        *(played("x", "win", 1.0), played("x", "win", 0.9), played("x", "draw", 0.0), played("x", "loss", -1.0)),
        played("x", "", -0.1),
        played("x", "win", 100.0, StopReason.ENV_ERROR),
        played("o", "loss", -1.0),
    ]
    found = seat_statistics(games, ["x", "o"])
    assert (found["win_rate_x"], found["draw_rate_x"], found["loss_rate_x"]) == (0.5, 0.25, 0.25)
    assert math.isclose(found["return_x"], 0.8 / 5)
    assert (found["win_rate_o"], found["loss_rate_o"], found["return_o"]) == (0.0, 1.0, -1.0)
    assert math.isnan(seat_statistics([], ["x"])["win_rate_x"])


def test_every_metric_of_games_is_listed() -> None:
    seats = {name.replace("x", "<seat>") for name in seat_statistics([], ["x"])}
    listed = {one.name for one in METRICS if one.heading == "games"}
    assert listed == seats | {"league_members", "league_score", "<metric>_<policy>"}
    assert {heading_of(name) for name in seat_statistics([], ["x"], "_vs_uniform")} == {"games"}
    assert heading_of("league_score") == "games" and heading_of("return_mean") == "rollout"


def test_a_policys_own_metrics_are_known_by_its_id() -> None:
    learner = learner_metrics({name: dict.fromkeys(LEARNER_METRICS, 1.0) for name in ("the_buyer", "p")})
    headings = {name: heading_of(name, ["the_buyer", "p"]) for name in learner}
    assert {headings.pop(name) for name in LEARNER_METRICS} == {"learner", "engine"}
    assert set(headings.values()) == {"games"}
    assert heading_of("entropy_p") == "more", "nobody has said that there is such a policy"


def test_the_numbers_of_several_policies_become_one() -> None:
    one = dict.fromkeys(LEARNER_METRICS, 1.0)
    assert learner_metrics({"p": one}) == one
    both = learner_metrics({"p": one, "q": dict.fromkeys(LEARNER_METRICS, 4.0)})
    assert (both["entropy"], both["num_trained_tokens"], both["logprob_gap_max"]) == (2.5, 5.0, 4.0)
    assert (both["entropy_p"], both["entropy_q"]) == (1.0, 4.0)


def test_evaluations_are_told_seat_by_seat() -> None:
    row = {"iteration": 3, "split": "val", "greedy": False, "success": 0.5, "num_instances": 4.0, "num_failed": 0.0}
    games = {"win_rate_x_vs_uniform": 0.5, "draw_rate_x_vs_uniform": 0.25, "loss_rate_x_vs_uniform": 0.25}
    found = Evaluation.from_row(row | games | {"return_x_vs_uniform": 0.25}, 1.0)
    assert outcome_lines(found) == ["  T = 1, x vs uniform: 50 % won, 25 % drawn, 25 % lost, return +0.25"]


def test_splits_share_no_deal_and_seats_meet_the_same_ones() -> None:
    matchmaker = GameMatchmaker(StarPOConfig().environment("kuhn_poker").policy_plan())
    played: dict[str, list[GameSpec]] = {}

    def play(specs: Sequence[EpisodeSpec]) -> list[Trajectory]:
        games = [spec for spec in specs if isinstance(spec, GameSpec)]
        played.setdefault(games[0].split, []).extend(games)
        return []

    for split in ("val", "test"):
        matchmaker.evaluate(play, split, 8)
    deals = {split: {spec.env_seed for spec in specs} for split, specs in played.items()}
    assert len(deals["val"]) == len(deals["test"]) == 4 and not deals["val"] & deals["test"]
    seats = ("player_0", "player_1")
    by_seat = [{spec.env_seed for spec in played["val"] if dict(spec.seats).get(seat)} for seat in seats]
    assert by_seat[0] == by_seat[1] == deals["val"]
