"""Each alarm on series made for it, on noise, and all of them on real runs that went well."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import parse_assignments
from rllib_ragen.config.watching import AlarmsSection
from rllib_ragen.diagnostics.alarm_rules import RULES, WATCHED
from rllib_ragen.diagnostics.alarms import Alarm, Alarms
from rllib_ragen.starpo.checks.build_config import build_config

Row = dict[str, Any]
HEALTHY = {
    "group_reward_std": 3.0,
    "entropy": 0.3,
    "grad_norm": 0.4,
    "return_mean": 2.0,
    "success": 0.4,
    "reply_tokens_mean": 20.0,
    "empty_thought_ratio": 0.02,
    "repeated_ratio": 0.05,
    "empty_in_a_row": 0.0,
    "skipped_steps": 0.0,
    "num_trained_tokens": 5000.0,
    "policy_loss": 0.01,
    "value_loss": 0.0,
    "logprob_gap_k3": 5e-5,
    "policy_lag": 0.0,
}
REAL_RUNS = [json.loads(line) for line in Path(__file__).with_name("real_runs.jsonl").read_text().splitlines()]


def series(**changed: Sequence[Any]) -> list[Row]:
    """Rows of a healthy run but for the metrics given, one value per iteration."""
    length = max(map(len, changed.values()))
    return [
        {"iteration": i + 1, **HEALTHY, **{name: values[i] for name, values in changed.items()}} for i in range(length)
    ]


def fired(rows: Iterable[Row], **modes: Any) -> list[tuple[int, str]]:
    alarms = Alarms(AlarmsSection(**modes))
    return [(alarm.iteration, alarm.alarm) for row in rows for alarm in alarms.feed(row)]


def noisy(mean: float, std: float, count: int, seed: int = 0) -> list[float]:
    return [float(mean + std * draw) for draw in np.random.default_rng(seed).normal(size=count)]


def test_there_is_a_switch_for_every_rule_and_a_rule_for_every_switch() -> None:
    assert list(AlarmsSection.model_fields) == list(RULES)


@pytest.mark.parametrize(
    ("alarm", "at", "rows"),
    [
        # 10 rows below a tenth of 3.0, from row 26 on: told at row 35.
        ("reward_std_collapse", 35, series(group_reward_std=[3.0] * 25 + [0.2] * 15)),
        ("entropy_collapse", 25, series(entropy=[0.3] * 20 + [0.02] * 10)),
        ("gradient_spike", 31, series(grad_norm=[*noisy(0.4, 0.05, 30), 6.0, 0.4, 0.4])),
        ("validation_failure", 60, [{**HEALTHY, "iteration": 10 * i, "split": "val", "success": 0.0 if i > 1 else 0.2}
                                    for i in range(8)]),
        ("empty_filter", 13, series(empty_in_a_row=[0] * 10 + [1, 2, 3, 4, 0, 1])),
        ("non_finite", 5, series(skipped_steps=[0, 0, 0, 0, 1, 0])),
        ("non_finite", 3, series(policy_loss=[0.1, 0.1, None, 0.1])),
        ("non_finite", 2, series(grad_norm=[0.1, None])),
        ("format_hacking", 25, series(empty_thought_ratio=[0.1] * 20 + [0.8] * 8)),
        ("repetition", 25, series(repeated_ratio=[0.05] * 20 + [0.95] * 8)),
        ("length_blowup", 25, series(reply_tokens_mean=[20.0] * 20 + [70.0] * 8)),
        ("sampler_gap", 9, series(logprob_gap_k3=[1e-5] * 4 + [0.02] * 8)),
        ("no_valid_reply", 3, series(valid_ratio=[0.0, 0.001, 0.0, 0.0])),
        ("no_valid_reply", 8, series(valid_ratio=[0.9] * 5 + [0.0] * 5)),
        ("nothing_to_compare", 3, series(zero_spread_groups=[4.0] * 5, num_groups=[4.0] * 5)),
        ("nothing_to_compare", 6, series(zero_spread_groups=[4.0, 4.0, 3.0, 4.0, 4.0, 4.0, 4.0], num_groups=[4.0] * 7)),
    ],
)  # fmt: skip
def test_an_alarm_fires_once_where_it_must(alarm: str, at: int, rows: list[Row]) -> None:
    assert fired(rows) == [(at, alarm)]


def test_S3_a_sampler_that_disagrees_sets_off_an_alarm() -> None:
    """The gap that grows while nothing else moves, and the same gap off policy, where it is meant to be."""
    growing = [1e-5 * 2**i for i in range(18)]
    assert [name for _, name in fired(series(logprob_gap_k3=growing))] == ["sampler_gap"]
    assert fired(series(logprob_gap_k3=growing, policy_lag=[1.0] * 18)) == []


def test_H2_an_empty_thought_in_good_form_sets_off_an_alarm() -> None:
    rising = [min(0.05 * i, 0.95) for i in range(25)]
    assert [name for _, name in fired(series(empty_thought_ratio=rising))] == ["format_hacking"]


def test_a_reward_cliff_is_told_within_a_few_iterations_of_the_fall() -> None:
    climb = np.linspace(1, 6, 40) + np.array(noisy(0, 0.5, 40))
    fall = np.array(noisy(0.5, 0.5, 15, seed=1))
    found = fired(series(return_mean=[*climb, *fall], success=[0.5] * 55))
    assert [name for _, name in found] == ["reward_cliff"]
    assert 41 < found[0][0] <= 47


def test_a_cliff_shows_in_runs_that_never_rose_and_in_negative_returns() -> None:
    for high, low in ((3.0, 0.5), (-0.1, -2.0)):
        rows = series(return_mean=[*noisy(high, 0.2, 30), *noisy(low, 0.2, 15)])
        assert [name for _, name in fired(rows)] == ["reward_cliff"]


@pytest.mark.parametrize("seed", range(20))
def test_noise_sets_nothing_off(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn: dict[str, Callable[[], float]] = {
        "group_reward_std": lambda: rng.gamma(9, 1 / 3),
        "entropy": lambda: 0.3 * rng.lognormal(0, 0.25),
        "grad_norm": lambda: 0.4 * rng.lognormal(0, 0.3),
        "return_mean": lambda: rng.normal(2, 1.5),
        "success": lambda: rng.binomial(128, 0.4) / 128,
        "reply_tokens_mean": lambda: rng.normal(20, 3),
        "empty_thought_ratio": lambda: rng.beta(2, 8),
        "repeated_ratio": lambda: rng.beta(1, 9),
    }
    rows = [{"iteration": i, **HEALTHY, **{k: draw() for k, draw in drawn.items()}} for i in range(1, 301)]
    assert fired(rows) == []


@pytest.mark.parametrize("run", ["sokoban", "frozen_lake"])
def test_real_runs_that_learn_set_nothing_off(run: str) -> None:
    rows = [row for row in REAL_RUNS if row["run"] == run]
    assert len(rows) > 60
    assert fired(rows) == []


def test_a_real_run_that_broke_sets_off_what_it_must() -> None:
    """Sokoban with 50 times the default learning rate: from the third iteration on every reply is `3 3 3 3 3 …`."""
    found = fired(row for row in REAL_RUNS if row["run"] == "collapse")
    assert found == [
        (5, "no_valid_reply"),
        (8, "repetition"),
        (8, "length_blowup"),
        (20, "reward_std_collapse"),
        (25, "validation_failure"),
    ]


def test_off_is_understood_from_yaml_and_the_command_line() -> None:
    assert build_config(parse_assignments(["alarms.repetition=off"])).alarms.repetition == "off"
    with pytest.raises(ConfigError, match=r"^alarms.repetition: must be one of off, warn, stop, got 'on'$"):
        build_config(parse_assignments(["alarms.repetition=on"]))


def test_alike_groups_are_no_alarm_where_all_succeed_or_nobody_compares_them() -> None:
    alike: dict[str, Any] = {"zero_spread_groups": [4.0] * 5, "num_groups": [4.0] * 5}
    assert fired(series(**alike, success=[0.95] * 5)) == []
    assert fired(series(**{**alike, "zero_spread_groups": [None] * 5})) == []
    assert fired(series(**{**alike, "zero_spread_groups": [0.0] * 5, "num_groups": [0.0] * 5})) == []


def test_a_reply_in_a_hundred_is_some() -> None:
    assert fired(series(valid_ratio=[0.0, 0.0, 0.011] * 4)) == []


def test_a_solved_task_is_no_reward_std_collapse() -> None:
    rows = series(group_reward_std=[3.0] * 25 + [0.1] * 15, success=[0.4] * 20 + [0.98] * 20)
    assert fired(rows) == []


def test_a_gap_of_rollouts_one_step_off_is_no_alarm() -> None:
    assert fired(series(logprob_gap_k3=[0.05] * 10, policy_lag=[1.0] * 10)) == []


def test_longer_replies_that_pay_are_no_blowup() -> None:
    rows = series(reply_tokens_mean=[20.0] * 20 + [70.0] * 8, return_mean=[2.0] * 20 + [5.0] * 8)
    assert fired(rows) == []


def test_a_model_that_repeated_itself_from_the_start_is_no_alarm() -> None:
    assert fired(series(repeated_ratio=noisy(0.6, 0.02, 40))) == []


def test_iterations_that_measured_nothing_are_passed_over() -> None:
    nothing = dict.fromkeys(("policy_loss", "value_loss", "entropy", "grad_norm"))
    rows = series(grad_norm=[0.4] * 30)
    for row in rows[12:14]:
        row.update(nothing, num_trained_tokens=0.0, empty_in_a_row=1.0)
    assert fired(rows) == []


def test_an_alarm_is_told_again_only_after_it_has_ended() -> None:
    rows = series(entropy=[0.3] * 15 + [0.01] * 10 + [0.3] * 10 + [0.01] * 10)
    assert fired(rows) == [(20, "entropy_collapse"), (40, "entropy_collapse")]


def test_switches() -> None:
    rows = series(entropy=[0.3] * 15 + [0.01] * 10)
    assert fired(rows, entropy_collapse="off") == []
    alarms = Alarms(AlarmsSection(entropy_collapse="stop"))
    told = [alarm for row in rows for alarm in alarms.feed(row)]
    assert told[0].mode == "stop"
    assert "entropy collapse at iteration 20: the entropy has been below 0.03 nats" in str(told[0])
    assert Alarm(**json.loads(json.dumps(told[0].to_json()))) == told[0]


@pytest.mark.parametrize("cut", [5, 19, 20, 24, 40])
def test_a_resumed_run_judges_as_one_that_never_stopped(cut: int) -> None:
    rows = series(
        entropy=[0.3] * 15 + [0.01] * 10 + [0.3] * 20,
        grad_norm=[*noisy(0.4, 0.05, 30), 6.0, *noisy(0.4, 0.05, 14)],
    )
    resumed = Alarms(AlarmsSection(), rows[:cut])
    later = [(alarm.iteration, alarm.alarm) for row in rows[cut:] for alarm in resumed.feed(row)]
    assert later == [alarm for alarm in fired(rows) if alarm[0] > cut]
    assert len(fired(rows)) == 2


class Spy(dict[str, Any]):
    """A row that notes what is asked of it."""

    asked: ClassVar[set[str]] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """Notes the key."""
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)


def test_rules_read_what_is_watched_and_nothing_else() -> None:
    """A checkpoint keeps these columns alone, for the callback that watches without a run's log."""
    Spy.asked.clear()
    rows = [Spy(row) for row in series(entropy=[0.3] * 30)]
    rows += [Spy(iteration=k, split="val", greedy=False, success=0.5) for k in range(6)]
    for rule in RULES.values():
        rule(rows)
    assert Spy.asked - {"iteration"} == set(WATCHED) - {"iteration"}
