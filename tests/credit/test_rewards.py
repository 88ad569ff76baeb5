"""Rewards of one's own: what is trained on, what is kept, and a fault that costs its own trajectory."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import parse_assignments, parse_config
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.credit.gigpo import GiGPO
from rllib_ragen.credit.rewards.batch import Rewards
from rllib_ragen.credit.rewards.registry import register_reward
from rllib_ragen.faults.exit_codes import NothingPlayed
from rllib_ragen.rollout.statistics import rollout_statistics
from rllib_ragen.rollout.trajectory_json import from_json, to_json
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.types import DEFAULT_MODULE, StopReason, Trajectory
from tests.credit.build import trajectory

OWN = "tests.credit.own_rewards"


def rewards(*told: Any, **run: Any) -> Rewards:
    entries = [{**one, "name": named(one["name"])} if isinstance(one, dict) else named(one) for one in told]
    return Rewards(build_config({"rewards": entries, **run}), [DEFAULT_MODULE])


def named(name: str) -> str:
    return name if name in ("env", "length_penalty", "format_reward") else f"{OWN}:{name}"


def batch() -> list[Trajectory]:
    return [trajectory("a", [(2, 3, 0.5), (1, 4, -0.1)]), trajectory("b", [(2, 5, 1.0)])]


def paid(batch: list[Trajectory]) -> list[list[float]]:
    return [[turn.reward for turn in one.turns] for one in batch]


@pytest.mark.parametrize(
    ("told", "gained"),
    [
        ("length", [[0.5, 6.9], [6.0]]),
        ({"name": "length", "weight": -0.1}, [[0.5, -0.8], [0.5]]),
        ("places", [[0.5, 0.9], [1.0]]),
        ({"name": "places", "step": 3.0}, [[0.5, 2.9], [1.0]]),
        ("of_a_turn", [[0.8, 0.3], [1.5]]),
        ("slowly", [[2.5, 1.9], [3.0]]),
        ("together", [[0.5, -0.1], [2.0]]),
        ("together_async", [[1.5, 0.9], [2.0]]),
        ({"name": "of_the_run", "timeout_s": 8}, [[12.5, 11.9], [13.0]]),
        ({"name": "Counts", "start": 4}, [[0.5, 4.9], [7.0]]),
        ({"name": "length_penalty", "limit": 6, "free": 2}, [[0.25, -0.6], [0.25]]),
        ("format_reward", [[0.5, -0.1], [1.0]]),
        ({"name": "length", "weight": 0}, [[0.5, -0.1], [1.0]]),
    ],
    ids=str,
)
def test_what_is_trained_on_is_the_weighted_sum_turn_by_turn(told: Any, gained: list[list[float]]) -> None:
    for one, wanted in zip(paid(rewards(told)(batch())), gained, strict=True):
        assert one == pytest.approx(wanted)


def test_the_environments_reward_can_be_weighed_and_left_out() -> None:
    both = rewards({"name": "env", "weight": 0.5}, {"name": "length", "weight": 2})(batch())
    assert [reward for one in paid(both) for reward in one] == pytest.approx([0.25, 13.95, 10.5])
    assert paid(rewards({"name": "env", "weight": 0}, "of_a_turn")(batch())) == [[0.3, 0.4], [0.5]]


def test_the_environments_own_reward_is_kept_and_measured() -> None:
    told = rewards("length", {"name": "places", "label": "steps"})
    given = batch()
    found = told(given)
    assert [one.env_return for one in found] == [one.episode_return for one in given]
    assert [one.rewards for one in found] == [{"length": 7.0, "steps": 1.0}, {"length": 5.0, "steps": 0.0}]
    assert rollout_statistics(found)["return_mean"] == rollout_statistics(given)["return_mean"]
    measured = told.metrics(found)
    assert measured == pytest.approx({"reward_length": 6.0, "reward_steps": 0.5, "trained_return_mean": 7.2})
    assert paid(given) == [[0.5, -0.1], [1.0]], "what came in stays as it was"
    again = [from_json(to_json(one)) for one in found]
    assert [(one.env_return, one.episode_return, one.rewards) for one in again] == [
        (one.env_return, one.episode_return, one.rewards) for one in found
    ]


def test_without_rewards_nothing_is_copied_or_measured() -> None:
    given, none = batch(), rewards()
    assert all(one is other for one, other in zip(none(given), given, strict=True))
    assert none.metrics(given) == {} and not none.stop_reason


def test_numbers_of_turns_reach_who_looks_at_turns() -> None:
    """GiGPO's second turn is better for its own reward alone."""
    given = [trajectory("a", [(2, 3, 0.0), (1, 3, 0.0)]), trajectory("a", [(2, 3, 0.0), (1, 4, 0.0)])]
    found = rewards({"name": "of_a_turn", "weight": 10})(given)
    late = GiGPO(turn_gamma=0.0, turn_weight=1.0)(found)
    turns = [one.turn_index() for one in found]
    advantages = [[float(c.advantages[t == k][0]) for k in (0, 1)] for c, t in zip(late, turns, strict=True)]
    assert advantages[1][1] > advantages[1][0] > 0
    assert advantages[0] == pytest.approx([-advantages[1][0], -advantages[1][1]])


def test_what_failed_or_never_began_or_is_not_trained_is_not_asked_about() -> None:
    crashed = trajectory("c", [(2, 3, 0.0)], StopReason.ENV_ERROR)
    other = trajectory("d", [(2, 3, 0.0)])
    other.module_id = "an_earlier_self"
    empty = trajectory("e", [])
    counts = rewards({"name": "Counts", "start": 0})
    found = counts([crashed, other, empty, *batch()])
    assert [one.rewards for one in found] == [{}, {}, {}, {"Counts": 1.0}, {"Counts": 2.0}]
    assert found[:3] == [crashed, other, empty]


def test_a_function_cannot_change_what_is_trained_on() -> None:
    assert paid(rewards("spoils")(batch())) == [[0.5, -0.1], [1.0]]


def test_a_sum_beyond_the_learners_numbers_is_no_reward() -> None:
    with pytest.raises(NothingPlayed, match=r"large gave 1e\+44"):
        rewards({"name": "large", "weight": 1e6})(batch())
    assert rewards({"name": "large", "weight": 0})(batch())[1].rewards == {"large": 1e38}


def test_state_goes_on() -> None:
    first = rewards({"name": "Counts", "start": 0})
    first(batch())
    second = rewards({"name": "Counts", "start": 0})
    second.restore(first.state())
    assert second(batch())[0].rewards == {"Counts": 3.0}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fails_on_b", "the reward tests.credit.own_rewards:fails_on_b raised ValueError: no b, please"),
        ("hangs_on_b", "the reward tests.credit.own_rewards:hangs_on_b took longer than 0.2 s"),
        ("hangs_on_b_async", "the reward tests.credit.own_rewards:hangs_on_b_async took longer than 0.2 s"),
    ],
)
def test_a_fault_costs_its_own_trajectory(name: str, says: str) -> None:
    third = trajectory("c", [(1, 1, 0.0)])
    found = rewards({"name": name, "timeout_s": 0.2}, "length")([*batch(), third])
    assert [one.stop_reason.failed for one in found] == [False, True, False]
    assert (found[1].stop_reason, found[1].error) == (StopReason.REWARD_ERROR, says)
    assert rollout_statistics(found)["num_failed"] == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fails", "fails raised RuntimeError: nothing to give"),
        ("exits", "exits raised SystemExit: 3"),
        ("hangs", "hangs took longer than 0.1 s"),
        ("text", "text gave 'good', which is no number"),
        ("nothing", "nothing gave None, which is no number"),
        ("nan", "nan gave nan"),
        ("huge", r"huge gave 1e\+300"),
        ("too_many", r"too_many gave 3 numbers for 2 turn\(s\)"),
        ("one_for_all", "one_for_all gave a float for 2 trajectories; wanted is a list with one for each"),
        ("too_few", "too_few gave 1 answers for 2 trajectories"),
    ],
)
def test_where_all_fail_the_run_stops_with_the_functions_name(name: str, says: str) -> None:
    with pytest.raises(NothingPlayed, match=f"^the reward {OWN}:{says}") as caught:
        rewards({"name": name, "timeout_s": 0.1 if name == "hangs" else 60})(batch())
    assert "\n" not in str(caught.value)


def test_what_hangs_again_and_again_is_given_up_at_once() -> None:
    started = threading.active_count()
    many = [trajectory(str(k), [(1, 1, 0.0)]) for k in range(500)]
    with pytest.raises(NothingPlayed, match=r"took longer than 0\.1 s"):
        rewards({"name": "hangs", "timeout_s": 0.1})(many)
    assert threading.active_count() <= started + 3


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ("lenght_penalty", "rewards: unknown reward 'lenght_penalty'; allowed: .*did you mean 'length_penalty'"),
        ([{"name": f"{OWN}:places", "stp": 1}], r"rewards: .*:places: unknown setting 'stp'; did you mean step\?"),
        ([{"name": f"{OWN}:Counts"}], "rewards: .*:Counts: the setting 'start' must be given"),
        ([{"name": f"{OWN}:Counts", "start": -1}], "rewards: Counts: start must be ≥ 0, got -1"),
        ([{"name": f"{OWN}:Counts", "start": "x"}], "rewards: Counts: TypeError: "),
        ([f"{OWN}:length", f"{OWN}:length"], "rewards: two are called 'length' in logs"),
        ([{"name": "env", "weight": 0}, {"name": f"{OWN}:length", "weight": 0}], "rewards: every weight is 0"),
        ([{"name": "env", "weight": "x"}], r"rewards\[0\]\.weight: must be a number ≥ -1e\+06 and ≤ 1e\+06, got 'x'"),
        ([{"name": "env", "weight": True}], r"rewards\[0\]\.weight: must be a number"),
        ([{"name": "env", "weight": float("inf")}], r"rewards\[0\]\.weight: must be a number"),
        ([{"name": "env", "timeout_s": 0}], r"rewards\[0\]\.timeout_s: must be a number > 0"),
        ([{"name": "env", "label": "a b"}], r"rewards\[0\]\.label: must be a text of letters"),
        ([{"weight": 1}], r"rewards\[0\]\.name: is missing; must be a text"),
        ([{"name": "env", "label": "task"}], "rewards: env: label and timeout_s mean nothing"),
        ([{"name": "env", "timeout_s": 3}], "rewards: env: label and timeout_s mean nothing"),
        ([{"name": "env", "size": 1}], r"rewards: env: unknown setting 'size'"),
        ([3], r"rewards\[0\]: must be a section with some of the keys name, weight"),
        (3, r"rewards\[0\]: must be a section"),
        ([{"name": "length_penalty", "limit": 5, "free": 5}], "rewards: LengthPenalty: free must be ≥ 0 and below"),
        ([{"name": "length_penalty", "limit": 5.5}], "rewards: LengthPenalty: free and limit must be integers"),
    ],
    ids=str,
)
def test_bad_input_is_one_sentence(told: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=f"^{says}") as caught:
        build_config({"rewards": told})
    assert "\n" not in str(caught.value)


def test_a_name_a_mapping_and_a_list_say_the_same() -> None:
    ways: tuple[Any, ...] = (f"{OWN}:length", {"name": f"{OWN}:length"}, [f"{OWN}:length"], [{"name": f"{OWN}:length"}])
    configs = [parse_config({"rewards": way}) for way in ways]
    assert all(config == configs[0] for config in configs)
    assert parse_config(parse_assignments([f"rewards={OWN}:length"])) == configs[0]
    assert parse_config(configs[0].model_dump(mode="json")) == configs[0]
    assert RunConfig().rewards == []


def test_a_registered_name_is_a_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    from rllib_ragen.credit.rewards.registry import REWARDS

    monkeypatch.setattr(REWARDS, "_registered", {})
    register_reward("my-own", lambda turn, by=1.0: by)
    found = Rewards(build_config({"rewards": {"name": "my-own", "by": 2.5}}), [DEFAULT_MODULE])(batch())
    assert found[0].rewards == {"my_own": 5.0}
    assert np.isfinite(found[0].episode_return)


def test_a_format_reward_knows_whether_thoughts_are_wanted() -> None:
    given = batch()
    given[0].turns[0].reply = "<think>x</think><answer>Up</answer>"
    given[0].turns[1].reply = "<answer>Up</answer>"
    given[1].turns[0].reply = "Up"
    for think, wanted in ((True, [1.0, 0.0]), (False, [1.0, 0.0])):
        found = rewards("format_reward", env={"think": think})(given)
        assert [one.rewards["format_reward"] for one in found] == wanted
        assert (found[0].turns[0].reward > 1) is think


def test_of_several_environments_each_has_its_form_and_its_means() -> None:
    envs = [{"name": "sokoban", "think": True}, {"name": "frozen_lake", "think": False}]
    own = rewards("format_reward", envs=envs)
    given = batch()
    for one, env in zip(given, ("frozen_lake", "sokoban"), strict=True):
        one.env = env
        for turn in one.turns:
            turn.reply = "<answer>Up</answer>"
    found = own(given)
    assert [one.rewards["format_reward"] for one in found] == [2.0, 0.0]
    means = own.metrics(found)
    assert means["reward_format_reward"] == 1.0
    assert (means["frozen_lake/reward_format_reward"], means["sokoban/reward_format_reward"]) == (2.0, 0.0)
    assert means["sokoban/trained_return_mean"] == pytest.approx(1.0)
