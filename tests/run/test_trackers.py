"""Trackers: what is asked for is there or refused, what they get is in their own files, a run that goes on is one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import parse_config
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.log import RunLog
from rllib_ragen.run.trackers import registry, wandb
from rllib_ragen.run.trackers.registry import check_trackers, open_trackers, ways_to_see
from rllib_ragen.run.trackers.table import COLUMNS, MAX_SHOWN, turn_rows
from rllib_ragen.run.trackers.tracker import TrackedRun
from rllib_ragen.sweep.__main__ import check_models
from rllib_ragen.sweep.spec import read_sweep
from tests.report.build import played
from tests.run.wandb_record import history, ids, sittings

SECRET = "sesame-open-4711-0123456789abcdef0123456789"
VARIABLES = ("WANDB_MODE", "WANDB_API_KEY", "WANDB_PROJECT", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def open_in(folder: Path, said: list[str], *names: str, start: int = 0) -> RunLog:
    log = RunLog(folder, start)
    config = RunConfig(trackers=list(names), name="mine")
    log.trackers = open_trackers(config, folder, start=start, group="sweep", history=log.training_rows, say=said.append)
    return log


def one_iteration(log: RunLog, iteration: int, reply: str = "<answer>Up</answer>") -> None:
    sampled = [played("7", [reply, "b"], 1.0, "#P#"), played("7", ["c"], -1.0, "#P#")]
    log.train(iteration, 1.0, {"success": iteration / 10, "entropy": None}, sampled, [None, None])


def test_a_run_is_one_record_of_wandb_however_many_sittings_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real package, offline; a key in the environment is nowhere in what it writes."""
    monkeypatch.setenv("WANDB_API_KEY", SECRET)
    monkeypatch.setenv("WANDB_MODE", "offline")
    said: list[str] = []
    log = open_in(tmp_path, said, "wandb")
    one_iteration(log, 1)
    log.evaluation(1, "val", True, {"success": 0.5}, {"a": 1.0})
    log.close()
    again = open_in(tmp_path, said, "wandb", start=1)
    one_iteration(again, 2)
    again.close()

    first, second = sittings(tmp_path)
    (name,) = ids(first)
    assert ids(second) == {name} == set(json.loads((tmp_path / registry.RECORDS_FILE).read_text()).values())
    assert {record.run.run_group for record in first if record.HasField("run")} == {"sweep"}
    rows = history(first)
    assert [row for row in rows if "rollout/success" in row] == [{"iteration": 1, "rollout/success": 0.1}]
    assert {"iteration": 1, "val_greedy/success": 0.5} in rows
    (shown,) = [row for row in rows if "trajectories.path" in row]
    (file,) = tmp_path.glob(f"wandb/*/files/{shown['trajectories.path']}")
    table = json.loads(file.read_text())
    assert table["columns"] == list(COLUMNS)
    assert [(row[1], row[2], row[6], row[9]) for row in table["data"]] == [
        ("7", 0, 1, "<answer>Up</answer>"), ("7", 0, 2, "b"), ("7", 1, 1, "c"),
    ]  # fmt: skip
    assert [row["rollout/success"] for row in history(second) if "rollout/success" in row] == [0.2]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    assert said == []


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, "offline"),
        ({"WANDB_API_KEY": SECRET}, "online"),
        ({"WANDB_API_KEY": SECRET, "WANDB_MODE": "offline"}, "offline"),
        ({"WANDB_MODE": "disabled"}, "disabled"),
        ({"WANDB_MODE": "online"}, "needs WANDB_API_KEY in the environment; allowed without it: offline"),
        ({"WANDB_MODE": "onlin"}, "WANDB_MODE=onlin must be one of online, offline, disabled, shared"),
    ],
)
def test_wandb_is_offline_unless_the_environment_says_otherwise(
    environment: dict[str, str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if " " not in found:
        assert wandb.mode() == found
        return
    with pytest.raises(ConfigError, match=found):
        check_trackers(["wandb"])


def test_trackio_is_local_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: find_json())
    monkeypatch.setenv("TRACKIO_SERVER_URL", "http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="trackio is local only, but TRACKIO_SERVER_URL is set"):
        check_trackers(["tensorboard", "trackio"])


def find_json() -> Any:
    return find_spec("json")


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
def test_a_package_that_is_not_there_is_refused_with_the_command_that_installs_it(
    name: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=rf"^trackers: {name} needs a package \(pip install 'rllib_ragen\[{name}\]'\)$"
    ):
        check_trackers([name])
    spec = read_sweep(
        {"name": "s", "base": {"trackers": [name]}, "space": {"learner.clip_low": {"choice": [0.1]}}}, tmp_path
    )
    with pytest.raises(ConfigError, match=f"trackers: {name} needs a package"):
        check_models(spec)


def test_the_folder_that_a_tracker_leaves_is_not_taken_for_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "namespace_like").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    found = find_spec("namespace_like")
    assert found is not None
    monkeypatch.setattr(registry, "find_spec", lambda name: found)
    with pytest.raises(ConfigError, match="wandb needs a package"):
        check_trackers(["wandb"])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["wand"], r"trackers: must be a list, each one of tensorboard, wandb, mlflow, trackio, got"),
        ("wandb", r"trackers: must be a list, each one of tensorboard"),
    ],
)
def test_unknown_trackers_are_refused_with_the_known_ones(given: object, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse_config({"trackers": given})


def test_one_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="names tensorboard twice"):
        check_trackers(["tensorboard", "tensorboard"])


def test_no_trackers_leave_the_runs_own_files_alone(tmp_path: Path) -> None:
    log = open_in(tmp_path, [])
    one_iteration(log, 1)
    log.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["progress.csv", "progress.jsonl", "trajectories.jsonl"]
    assert ways_to_see(RunConfig(trackers=[]), tmp_path) == []


class Failing:
    """A service that is gone."""

    key = "k"

    def __init__(self, run: TrackedRun) -> None:
        if run.start == 99:
            raise RuntimeError("no such project\nand more")

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        raise ConnectionError("the server is gone")

    def log_trajectories(self, iteration: int, records: Sequence[Tree]) -> None:
        raise AssertionError("it was left out before")

    def close(self) -> None:
        raise AssertionError("it was left out before")


def test_a_tracker_that_fails_is_told_once_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb, "WandbTracker", Failing)
    said: list[str] = []
    log = open_in(tmp_path, said, "wandb")
    one_iteration(log, 1)
    one_iteration(log, 2)
    log.close()
    assert said == ["warning  tracker wandb failed at iteration 1 and is left out: the server is gone"]
    assert [row["iteration"] for row in log.training_rows()] == [1, 2]
    with pytest.raises(ConfigError, match=r"^trackers: wandb does not open its record: no such project$"):
        open_in(tmp_path, said, "wandb", start=99)


def test_texts_of_tables_are_short_and_steer_no_terminal() -> None:
    turn = {"prompt": "a\x1b[2J\nb", "reply": "x" * (MAX_SHOWN + 5), "reward": 0.5}
    record = {"group_id": 1, "member": 0, "return": 0.5, "success": False, "stop_reason": "max_turns", "turns": [turn]}
    (row,) = turn_rows(4, [record])
    assert row[:8] == [4, "1", 0, 0.5, False, "max_turns", 1, 0.5]
    assert row[8] == "a\\x1b[2J\nb"
    assert row[9] == f"{'x' * MAX_SHOWN}\n… 5 more characters in trajectories.jsonl"
