"""A run of a sweep: an ordinary, resumable run in a Tune trial."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragen_envs.tree import Tree
from rllib_ragen.config.load import read_yaml
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.folder import RunFolder, SavedState, is_run_folder
from rllib_ragen.sweep.spec import SweepSpec, read_sweep

if TYPE_CHECKING:
    from ray.tune import PlacementGroupFactory

    from rllib_ragen.run.evaluation import Evaluation
    from rllib_ragen.run.loop import OnEvaluation, OnSave

SPEC_FILE = "sweep.yaml"
RESULT_FILE = "result.json"
"""Name of the file with the last report of a finished run, in its folder."""


def run_folder_of(sweep: Path, number: int, seed: int) -> Path:
    """Returns the folder of the run of a configuration with a seed."""
    return sweep / "runs" / f"trial_{number:04}_seed{seed}"


def play_trial(assignment: Tree, sweep: Path) -> None:
    """Runs a trial, as the Tune trainable. `assignment` is StudySearch.suggest's: {number, seed, values}.

    Reports the objectives and `iteration` after every validation, and `finished` and `stopped` at the end. A finished
    run that Tune does not know as finished only reports.
    """
    from ray import tune

    path = run_folder_of(sweep, assignment["number"], assignment["seed"])

    def report(found: Sequence[Evaluation]) -> None:
        if found[0].split == "val":
            tune.report({**measures(found), "finished": False, "stopped": ""})

    if not (path / RESULT_FILE).is_file():
        config = run_config(sweep, assignment["values"], assignment["seed"], path)
        saved = RunFolder(path).checkpoints()
        finish(path, train(config, saved[-1] if saved else None, on_evaluation=report))
    tune.report(json.loads((path / RESULT_FILE).read_text()))


def run_config(sweep: Path, values: Mapping[str, object], seed: int, path: Path) -> RunConfig:
    """Returns the config of a run of the sweep whose folder is `path`."""
    config = load_spec(sweep).config(values, seed)
    config.results_dir, config.name = path.parent, path.name
    if config.learner.torch_threads is None:
        # A trial has the CPUs of its bundles, not the machine's.
        config.learner.torch_threads = 1
    return config


def finish(path: Path, result: Tree) -> None:
    """Marks the run in `path` as finished, atomically."""
    partial = (path / RESULT_FILE).with_suffix(".part")
    partial.write_text(json.dumps(result))
    os.replace(partial, path / RESULT_FILE)


def train(
    config: RunConfig,
    start: SavedState | None,
    on_evaluation: OnEvaluation | None = None,
    on_save: OnSave | None = None,
) -> Tree:
    """Trains from `start` in the config's run folder → the last validation, and the reason if it stopped early."""
    from rllib_ragen.faults.interrupt import Interrupt
    from rllib_ragen.faults.watchdog import Watchdog
    from rllib_ragen.run.console import Display
    from rllib_ragen.run.loop import Surroundings, run_training
    from rllib_ragen.run.preflight import preflight
    from rllib_ragen.run.several import find_scales

    assert config.name is not None
    path = config.results_dir / config.name
    preflight(config)
    folder = RunFolder.open(path) if is_run_folder(path) else RunFolder.create(config, path.name)
    with (path / "log.txt").open("a", encoding="utf-8") as log:
        display = Display(log)
        # Not entered: in a trial signals are Tune's.
        interrupt = Interrupt(display.say)
        scales = find_scales(config)
        fault = config.fault
        with Watchdog(
            display.say,
            report_after_s=fault.report_after_s,
            hang_timeout_s=fault.hang_timeout_s,
            stacks=path / "hang.txt",
        ):
            group = load_spec(path.parents[1]).name
            around = Surroundings(config, folder, display, interrupt, scales, on_evaluation, on_save, group)
            training, reason = run_training(around, start)
    early = "" if training.iteration >= config.iterations else f"{reason} (iteration {training.iteration})"
    last = [one for one in training.evaluations if (one.split, one.iteration) == ("val", training.iteration)]
    return {**measures(last), "finished": True, "stopped": early}


def measures(found: Sequence[Evaluation]) -> dict[str, float]:
    """Returns the metrics for objectives and schedulers from one validation."""
    numbers: dict[str, float] = {"iteration": found[0].iteration}
    for evaluation in found:
        if evaluation.greedy:
            numbers["success_greedy"] = evaluation.success
        else:
            numbers["success"] = evaluation.success
            numbers["return"] = evaluation.episode_return
            numbers["reply_tokens"] = evaluation.reply_tokens
    return numbers


def load_spec(sweep: Path) -> SweepSpec:
    """Reads the sweep in its folder. Raises ConfigError if this version cannot read it."""
    return read_sweep(read_yaml(sweep / SPEC_FILE), sweep)


def resources_of(config: RunConfig) -> PlacementGroupFactory:
    """Returns the resources of one run: the driver with a local learner, each runner, each remote learner."""
    from ray.tune import PlacementGroupFactory

    rollout, learner = config.rollout, config.learner
    local = learner.num_gpus_per_learner if learner.num_learners == 0 else 0
    bundles: list[dict[str, float]] = [_bundle(local)]
    bundles += [_bundle(rollout.num_gpus_per_env_runner)] * rollout.num_env_runners
    bundles += [_bundle(learner.num_gpus_per_learner)] * learner.num_learners
    return PlacementGroupFactory(bundles, strategy="PACK")


def _bundle(gpus: float) -> dict[str, float]:
    return {"CPU": 1, "GPU": gpus} if gpus else {"CPU": 1}
