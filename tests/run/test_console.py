"""What people see: plain lines, the live panel, tables, and the files behind them."""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
import re
import signal
import struct
import termios
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ragen_envs.baselines import Baselines
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.diagnostics.alarms import measured
from rllib_ragen.faults.interrupt import Interrupt
from rllib_ragen.run.console import ConsoleState, Display, LiveDisplay, duration, make_display, shown, sparkline
from rllib_ragen.run.evaluation import (
    Evaluation,
    best_on_validation,
    outcome_lines,
    results_table,
    validation_line,
    way,
)
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.run.log import RunLog
from rllib_ragen.types import StopReason, Trajectory

METRICS = {
    "success": 0.414, "return_mean": 2.31, "group_reward_std": 1.92, "kept_groups": 28.0, "num_groups": 32.0,
    "entropy": 0.61, "clip_fraction": 0.012, "reply_tokens_per_s": 4412.0, "num_failed": 0.0,
}  # fmt: skip
PROGRESS = ConsoleState(7, 80, 65.0, 432.0, METRICS)
BASELINES = Baselines(random=0.066, blind=0.094, best=0.973, notes={})


def row(
    iteration: int, split: str, greedy: bool, success: float | None, failed: int = 0, temperature: float = 1.0
) -> Evaluation:
    """256 different instances, of which the first ones are solved."""
    count = 256 - failed
    instances = {} if success is None else {f"{k:03}": float(k < round(count * success)) for k in range(count)}
    return Evaluation.from_row({
        "iteration": iteration, "split": split, "greedy": greedy, "success": success, "instances": instances,
        "num_instances": 256.0, "num_failed": float(failed),
    }, temperature)  # fmt: skip


def test_a_plain_line_holds_everything_and_no_control_codes() -> None:
    out = io.StringIO()
    make_display("sokoban", out).iteration(PROGRESS)
    assert out.getvalue() == (
        "iteration  7/80  success 41.4 %  return 2.31  group std 1.92  kept groups 28/32  entropy 0.610"
        "  clip fraction 0.012  tokens/s 4,412  left 7:12\n"
    )


def test_what_was_not_measured_is_not_shown_and_failures_are() -> None:
    assert shown({"success": 0.5, "entropy": None}) == [("success", "50.0 %")]
    assert ("failed", "3") in shown({**METRICS, "num_failed": 3.0})
    assert "failed" not in dict(shown(METRICS))


def test_a_terminal_gets_a_panel_that_is_drawn_over_and_lines_above_it() -> None:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with os.fdopen(slave, "w") as terminal:
        display = make_display("sokoban-0", terminal)
        assert isinstance(display, LiveDisplay)
        display.say("val at iteration 0: [T = 1] 30.5 %")
        for iteration in (1, 2):
            display.iteration(ConsoleState(iteration, 80, 65.0, 432.0, {**METRICS, "success": iteration / 4}))
        display.close()
        seen = os.read(master, 100_000).decode()
    os.close(master)
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", seen)
    assert "[T = 1] 30.5 %" in text, "brackets are not markup"
    assert "sokoban-0 · iteration 2/80 · 1:05 gone, 7:12 left" in text
    assert re.search(r"success\s+50\.0 %\s+return\s+2\.31", text)
    assert sparkline([0.25, 0.5]) in text
    assert "\x1b[" in seen


def test_a_display_that_never_showed_anything_can_be_closed() -> None:
    Display(io.StringIO()).close()


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (432, "7:12"), (4032, "1:07:12")])
def test_durations_read_like_a_clock(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_standard_error_is_over_instances_that_count() -> None:
    evaluation = row(0, "test", False, 0.25, failed=156)
    assert evaluation.num_episodes == 100
    assert str(evaluation) == "25.0 ± 4.4 %"  # √(¼ · ¾ / 99)
    assert math.isnan(row(0, "test", False, None, failed=256).success)


def test_the_table_compares_the_first_with_the_last() -> None:
    evaluations = [
        *(row(0, "test", False, 0.305), row(0, "test", True, 0.605)),
        *(row(80, "test", False, 0.473), row(80, "test", True, 0.7)),
    ]
    table = results_table([*evaluations, row(0, "val", False, 0.3)], BASELINES).splitlines()
    assert " ".join(table[1].split()) == "test, T = 1 30.5 ± 2.9 % 47.3 ± 3.1 % +16.8 ± 2.3 % 256 instances"
    assert " ".join(table[3].split()) == "val, T = 1 30.0 ± 2.9 % 256 instances"
    assert table[-1] == "on this scale: random 6.6 %, best blind plan 9.4 %, best possible 97.3 %"
    assert len({line.rindex("256") for line in table[1:4]}) == 1, "columns are aligned"


def test_a_validation_stands_beside_floor_and_ceiling() -> None:
    line = validation_line([row(20, "val", False, 0.4), row(20, "val", True, 0.6)], BASELINES)
    assert line.startswith("val at iteration 20, 256 instances: T = 1 40.0 ± 3.1 %, greedy 60.0 ± 3.1 %")
    assert "random 6.6 %" in line
    assert "baselines unknown" in validation_line([row(20, "val", False, 0.4)], None)


def test_the_first_signal_asks_and_the_second_stops() -> None:
    said: list[str] = []
    before = signal.getsignal(signal.SIGTERM)
    with Interrupt(said.append) as interrupt:
        interrupt.install()
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.requested
        assert said[0].startswith("SIGTERM: stopping after the current step")
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_checkpoint_that_was_cut_off_is_none(tmp_path: Path) -> None:
    folder = RunFolder.create(RunConfig(results_dir=tmp_path), "run")

    def fails(path: Path) -> None:
        (path / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.save_checkpoint(3, fails, keep=0)
    assert folder.checkpoints() == []
    with pytest.raises(ConfigError, match="no checkpoint to go on from"):
        folder.newest_checkpoint()
    folder.save_checkpoint(3, lambda path: (path / "whole").touch(), keep=0)
    assert [path.name for path in folder.newest_checkpoint().path.iterdir()] == ["whole"]


@pytest.mark.parametrize(("keep", "left"), [(0, [1, 2, 10]), (2, [2, 10]), (5, [1, 2, 10])])
def test_the_newest_checkpoints_are_kept(tmp_path: Path, keep: int, left: list[int]) -> None:
    folder = RunFolder.create(RunConfig(results_dir=tmp_path), "run")
    for iteration in (1, 2, 10):
        folder.save_checkpoint(iteration, lambda path: (path / "state").touch(), keep)
    assert [state.iteration for state in folder.checkpoints()] == left


def test_the_best_on_validation_outlives_later_checkpoints_and_only_one_is_kept(tmp_path: Path) -> None:
    folder = RunFolder.create(RunConfig(results_dir=tmp_path), "run")

    def write(text: str) -> Callable[[Path], object]:
        return lambda path: (path / "state").write_text(text)

    assert folder.best_checkpoint() is None
    folder.save_best(2, write("2"))
    folder.save_checkpoint(2, write("never called: the same state is there"), keep=1)
    assert (folder.newest_checkpoint().path / "state").read_text() == "2"
    folder.save_best(4, write("4"))
    assert folder.best_checkpoint() == (4, folder.path / "best" / "iteration_000004")
    folder.forget_bests_after(2)  # killed before iteration 4 had its checkpoint: it is played again
    assert folder.best_checkpoint() == (2, folder.path / "best" / "iteration_000002")
    folder.save_best(4, write("4"))
    for iteration in (4, 6, 8):
        folder.save_checkpoint(iteration, write(str(iteration)), keep=1)
    assert [state.iteration for state in folder.checkpoints()] == [8]
    assert [path.name for path in (folder.path / "best").iterdir()] == ["iteration_000004"]
    assert (folder.path / "best" / "iteration_000004" / "state").read_text() == "4"


def test_the_best_is_the_mean_of_both_ways_then_the_return_then_the_earliest() -> None:
    def both(iteration: int, sampled: float, greedy: float, value: float = 1.0) -> list[Evaluation]:
        return [Evaluation(iteration, "val", way, 1.0, s, 8, value) for way, s in ((False, sampled), (True, greedy))]

    assert best_on_validation([]) is None
    assert best_on_validation([*both(0, 0.5, 0.5), *both(2, 0.25, 1.0), *both(4, 0.6, 0.4)]) == (2, 0.625)
    assert best_on_validation([*both(0, 0.5, 0.5), *both(2, 0.25, 0.75, value=2.0), *both(4, 0.5, 0.5)]) == (2, 0.5)
    assert best_on_validation([*both(0, 0.5, 0.5), *both(2, 0.5, 0.5)]) == (0, 0.5)
    assert best_on_validation([*both(0, 0.1, 0.1), *both(2, math.nan, 0.9), *both(4, 0.9, 0.9)[:1]]) == (0, 0.1)
    assert best_on_validation([Evaluation(0, "test", way, 1.0, 1.0, 8) for way in (False, True)]) is None


def sampled(count: int) -> list[Trajectory]:
    return [Trajectory(f"group {i // 2}", env_seed=i // 2, outcome_seed=i) for i in range(count)]


def test_a_resumed_log_forgets_what_will_be_done_again(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    for iteration in (1, 2, 3):
        log.train(iteration, 10.0 * iteration, {"success": iteration / 10}, sampled(12), [None] * 12)
        log.alarm({"iteration": iteration, "alarm": "repetition", "mode": "warn", "message": "!!!!"})
        log.evaluation(iteration, "val", True, {"success": 0.5}, {})
    log.close()
    with (tmp_path / "progress.jsonl").open("a") as file:
        file.write('{"iteration": 4, "succ')  # the machine went down here
    again = RunLog(tmp_path, start=2)
    assert [r["iteration"] for r in again.rows()] == [1, 1, 2, 2]
    again.train(3, 30.0, {"success": 0.9, "entropy": 0.1}, [], [])
    again.close()
    assert (tmp_path / "progress.csv").read_text().splitlines() == [
        "iteration,time_s,success,entropy", "1,10.0,0.1,", "2,20.0,0.2,", "3,30.0,0.9,0.1",
    ]  # fmt: skip
    stored = [json.loads(line) for line in (tmp_path / "trajectories.jsonl").read_text().splitlines()]
    assert [(r["iteration"], r["group_id"], r["member"]) for r in stored] == [
        (i, f"group {group}", member) for i in (1, 2) for group, member in [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0)]
    ]
    told = [json.loads(line) for line in (tmp_path / "alarms.jsonl").read_text().splitlines()]
    assert [alarm["iteration"] for alarm in told] == [1, 2]


def test_a_resumed_log_keeps_replies_with_unusual_line_ends(tmp_path: Path) -> None:
    said = "a\u2028b\u2029c\x85d\ne\x0cf"
    played = Trajectory("g", 0, 0, stop_reason=StopReason.ENV_ERROR, error=said)
    log = RunLog(tmp_path)
    log.train(1, 1.0, {"success": 0.0}, [played], [None])
    log.close()
    RunLog(tmp_path, start=1).close()
    (record,) = [json.loads(line) for line in (tmp_path / "trajectories.jsonl").read_text().split("\n") if line]
    assert record["error"] == said


def test_nothing_measured_is_null() -> None:
    assert measured({"a": float("nan"), "b": 2, "c": float("inf")}) == {"a": None, "b": 2.0, "c": None}


def evaluated(instances: dict[str, float], temperature: float = 1.0, episodes: int | None = None) -> Evaluation:
    success = sum(instances.values()) / len(instances) if instances else 0.5
    num = len(instances) if episodes is None else episodes
    row = {"iteration": 0, "split": "val", "greedy": False, "success": success, "num_instances": num, "num_failed": 0}
    return Evaluation.from_row({**row, "instances": instances}, temperature)


def test_a_change_is_compared_instance_by_instance() -> None:
    """Changes 1, 0, 0, 1: mean ½, std (ddof 1) √⅓, error .288675. Unpaired it would be √(.25² + .25²) = .353553."""
    before = evaluated({"a": 0.0, "b": 0.0, "c": 1.0, "d": 0.0})
    after = evaluated({"a": 1.0, "b": 0.0, "c": 1.0, "d": 1.0})
    assert before.change_to(after) == pytest.approx((0.5, 0.288675), abs=1e-6)
    assert before.error == after.error == pytest.approx(0.25)


def test_only_instances_that_both_have_played_are_compared() -> None:
    before, after = evaluated({"a": 0.0, "b": 1.0, "x": 1.0}), evaluated({"a": 1.0, "b": 1.0, "y": 0.0})
    assert before.change_to(after) == pytest.approx((0.5, 0.5))
    alone = evaluated({"a": 1.0, "z": 0.0})
    change, error = before.change_to(alone)
    assert change == 1.0 and math.isnan(error), "one instance in common tells no spread"


def test_no_error_is_claimed_where_none_can_be_told() -> None:
    """One instance, or a row of an earlier version, which did not say which instances it had."""
    assert str(evaluated({"a": 0.5}, episodes=40)) == "50.0 % (± n/a)"
    assert evaluated({"a": 0.5}, episodes=40).count == "1 instance, 40 episodes"
    old = evaluated({}, episodes=256)
    assert (str(old), old.count) == ("50.0 % (± n/a)", "256 episodes")
    table = results_table([old, replace(evaluated({}, episodes=256), iteration=3, success=0.75)], BASELINES)
    assert "50.0 % (± n/a)" in table and "+25.0 % (± n/a)" in table
    assert evaluated({"a": 1.0, "b": 0.0}, episodes=64).count == "2 instances, 64 episodes"


@pytest.mark.parametrize(("temperature", "label"), [(1.0, "T = 1"), (0.7, "T = 0.7"), (1.25, "T = 1.25")])
def test_the_label_says_the_temperature_that_was_used(temperature: float, label: str) -> None:
    evaluations = [row(0, "val", way, 0.5, temperature=temperature) for way in (False, True)]
    games = {"win_rate_x_vs_y": 0.5, "draw_rate_x_vs_y": 0.25, "loss_rate_x_vs_y": 0.25, "return_x_vs_y": 0.0}
    game = replace(evaluations[0], outcomes=games)
    told = [results_table(evaluations, BASELINES), validation_line(evaluations, BASELINES), *outcome_lines(game)]
    for text in told:
        assert re.findall(r"T = [\d.]+", text) == [label], text


def test_runs_at_several_temperatures_have_a_label_that_holds_for_all() -> None:
    assert way(False, 1.0, 1.0) == "T = 1" and way(True, 0.5, 1.0) == "greedy"
    assert way(False, 0.5, 1.0) == "sampled, T of the run"
