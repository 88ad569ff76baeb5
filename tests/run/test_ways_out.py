"""What a run says at its end can be done: each printed command is read by the command it names, in that situation."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.evaluate.__main__ import parse as parse_evaluate
from rllib_ragen.evaluate.plan import plan as plan_evaluate
from rllib_ragen.report.__main__ import write_report
from rllib_ragen.run.__main__ import Job, how_to_go_on, longer, parse, plan, tell_results
from rllib_ragen.run.console import Display
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.run.trackers.registry import open_trackers
from rllib_ragen.starpo.checkpoint.manifest import write_manifest
from rllib_ragen.starpo.checks.build_config import build_config
from tests.report.build import make_run
from tests.sweep.build import finished_sweep

COMMAND = re.compile(r"python -m (rllib_ragen[.\w]*)( .*)?$", re.MULTILINE)
PATH = re.compile(r"(?<!\S)(/\S+?)[,:.]?(?=\s|$)")


class Lines(Display):
    """What was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def stopped_run(results: Path, iteration: int | None, *, name: str = "run", **keys: Any) -> RunFolder:
    """The folder of a run that has stopped after `iteration`, saved; None: before it saved anything."""
    config = build_config({"results_dir": str(results), "env": {"name": "bandit"}, "iterations": 10, **keys})
    folder = RunFolder.create(config, name)
    if iteration is not None:
        folder.save_checkpoint(iteration, lambda path: save(path, config), keep=0)
    return folder


def save(path: Path, config: RunConfig) -> None:
    path.mkdir(parents=True, exist_ok=True)
    write_manifest(path, {"files": {}, "config": config.model_dump(mode="json"), "modules": []})


def resumed(command: str) -> Job:
    """The job that a printed command asks for."""
    python, dash_m, module, *arguments = shlex.split(command)
    assert (python, dash_m, module) == ("python", "-m", "rllib_ragen.run")
    return plan(parse(arguments))


def test_killed_before_the_first_checkpoint_there_is_nothing_to_resume(tmp_path: Path) -> None:
    folder = stopped_run(tmp_path, None)
    assert "--resume" not in how_to_go_on(folder)
    with pytest.raises(ConfigError, match="no checkpoint to go on from"):
        plan(parse(["--resume", str(folder.path)]))
    plan(parse(["--env", "bandit", "--results-dir", str(tmp_path), "--name", "another"]))


@pytest.mark.parametrize("iteration", [0, 3, 10])
def test_a_stopped_run_goes_on_with_the_command_it_prints(tmp_path: Path, iteration: int) -> None:
    """Also one that was stopped after its last iteration, while it was tested: it has yet to be exported."""
    folder = stopped_run(tmp_path, iteration)
    folder.save_stop_reason(iteration, "it was interrupted", finished=False)
    (command,) = [match[0] for match in COMMAND.finditer(how_to_go_on(folder))]
    job = resumed(command)
    assert job.start is not None and job.start.iteration == iteration


def test_a_finished_run_says_what_must_be_longer(tmp_path: Path) -> None:
    folder = stopped_run(tmp_path, 10)
    folder.save_stop_reason(10, "all 10 iterations are done", finished=True)
    with pytest.raises(ConfigError, match=r"iterations: all 10 of .* are done; to go on give --iterations above 10"):
        plan(parse(["--resume", str(folder.path)]))
    assert resumed(f"python -m rllib_ragen.run --resume {folder.path} --iterations 11").start is not None


@pytest.mark.parametrize(("iteration", "resume"), [(None, False), (2, True)])
def test_a_name_that_is_taken_is_resumed_only_where_that_can_be(
    tmp_path: Path, iteration: int | None, resume: bool
) -> None:
    folder = stopped_run(tmp_path, iteration)
    with pytest.raises(ConfigError, match=r"exists already; give another --name, or ") as raised:
        RunFolder.create(folder.config(), "run")
    assert (f"--resume {folder.path}" in str(raised.value)) == resume
    assert ("delete it" in str(raised.value)) == (not resume)
    (tmp_path / "no run").mkdir()
    with pytest.raises(ConfigError, match="delete it"):
        RunFolder.create(folder.config(), "no run")


LIMITS: dict[str, tuple[int, str, dict[str, Any], dict[str, Any]]] = {
    "iterations": (10, "all 10 iterations are done", {}, {"iterations": 20}),
    "time": (4, "the time limit of 5 s is reached", {"time_limit_s": 5}, {"time_limit_s": 10}),
    "tokens": (4, "the limit of 900 sampled tokens is reached", {"token_limit": 900}, {"token_limit": 1800}),
    "tokens, with a time limit": (
        *(4, "the limit of 900 sampled tokens is reached", {"token_limit": 900, "time_limit_s": 5}),
        {"token_limit": 1800, "time_limit_s": 5},
    ),
    "all": (10, "all 10 iterations are done", {"time_limit_s": 5}, {"iterations": 20, "time_limit_s": 10}),
    "an alarm": (4, "alarms.repetition=stop and there is a repetition", {"time_limit_s": 5}, {"time_limit_s": 5}),
}


@pytest.mark.parametrize("case", LIMITS)
def test_train_longer_moves_the_limit_that_was_reached(tmp_path: Path, case: str) -> None:
    iteration, reason, keys, wanted = LIMITS[case]
    folder = stopped_run(tmp_path, iteration, **keys)
    folder.save_stop_reason(iteration, reason, finished=True)
    command = shlex.join(["python", "-m", "rllib_ragen.run", "--resume", str(folder.path)])
    job = resumed(" ".join([command, *longer(folder.config(), iteration, reason)]))
    assert job.start is not None
    assert {key: getattr(job.config, key) for key in wanted} == wanted
    assert job.config.iterations > iteration


def test_all_that_is_printed_at_the_end_is_there_and_can_be_run(tmp_path: Path) -> None:
    """A run that was made by the code that makes runs, but for the training."""
    path = make_run(tmp_path, "whole")
    folder = RunFolder.open(path)
    config = folder.config()
    folder.save_checkpoint(6, lambda target: save(target, config), keep=0)
    folder.save_best(6, lambda target: save(target, config))
    for tracker in open_trackers(config, path, start=6, group=None, history=list, say=print):
        tracker.log(6, {"rollout/success": 0.5})
        tracker.close()
    lines = Lines()
    job = replace(plan_of(folder), config=config)
    training = cast("Any", SimpleNamespace(iteration=6))
    tell_results(job, training, "the time limit of 5 s is reached", lines, "table")
    said = "\n".join(lines.said)
    for found in PATH.findall(said):
        assert Path(found).exists(), found
    for name in ("progress.csv", "progress.jsonl", "trajectories.jsonl"):
        assert name in said and (path / name).is_file()
    commands = {match[1]: shlex.split(match[2] or "") for match in COMMAND.finditer(said)}
    assert set(commands) == {"rllib_ragen.report", "rllib_ragen.evaluate", "rllib_ragen.run"}
    assert write_report([Path(commands["rllib_ragen.report"][0])], None, 10).is_file()
    (evaluated,) = plan_evaluate(parse_evaluate(commands["rllib_ragen.evaluate"]))
    assert evaluated.saved is not None and evaluated.saved.path.parent.name == "best"
    assert plan(parse(commands["rllib_ragen.run"])).start is not None
    (logdir,) = re.findall(r"tensorboard --logdir (\S+)", said)
    assert list(Path(logdir).glob("events*"))


def plan_of(folder: RunFolder) -> Job:
    return plan(parse(["--resume", str(folder.path)]))


def test_the_best_of_a_sweep_is_run_by_what_it_prints(tmp_path: Path) -> None:
    from rllib_ragen.sweep.report import write_report as write_sweep_report

    spec, study, folder = finished_sweep(tmp_path)
    write_sweep_report(spec, study, folder)
    job = plan(parse(["--config", str(folder / "best.yaml"), "--results-dir", str(tmp_path / "results")]))
    assert job.start is None and job.folder.path.is_dir()
