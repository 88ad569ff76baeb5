"""One run of a sweep: an ordinary run folder, filled inside a Tune trial, that goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rllib_ragen.config import RunConfig
from rllib_ragen.config_load import read_yaml
from rllib_ragen.sweep.spec import SweepSpec, read_sweep

if TYPE_CHECKING:
    from ray.tune import PlacementGroupFactory

    from rllib_ragen.results import Evaluation

SPEC_FILE = "sweep.yaml"
RESULT_FILE = "result.json"
"""In a run folder: the run is over, and this is what it reported last."""


def run_folder_of(sweep: Path, number: int, seed: int) -> Path:
    """Where the run of a configuration with a seed is."""
    return sweep / "runs" / f"trial_{number:04}_seed{seed}"


def play_trial(assignment: dict[str, Any]) -> None:
    """The Tune trainable. `assignment` is StudySearch.suggest's: {sweep, number, seed, values}.

    Reports after every validation: the objectives, `iteration`, and at the end `finished` and `stopped`. A run that is
    finished already, of which Tune has lost track, only reports.
    """
    from ray import tune

    sweep = Path(assignment["sweep"])
    path = run_folder_of(sweep, assignment["number"], assignment["seed"])
    result = path / RESULT_FILE
    if not result.is_file():
        config = load_spec(sweep).config(assignment["values"], assignment["seed"])
        config.results_dir, config.name = path.parent, path.name
        if config.learner.torch_threads is None:
            # A trial has the CPUs of its bundles, not the machine's.
            config.learner.torch_threads = 1
        final = _train(config, path, lambda numbers: tune.report({**numbers, "finished": False, "stopped": ""}))
        partial = result.with_suffix(".part")
        partial.write_text(json.dumps(final))
        os.replace(partial, result)
    tune.report(json.loads(result.read_text()))


def _train(config: RunConfig, path: Path, report: Callable[[dict[str, float]], None]) -> dict[str, Any]:
    """Trains, from the newest checkpoint if there is one; the last validation, and why it stopped if early."""
    from rllib_ragen.display import Display
    from rllib_ragen.interrupt import Interrupt
    from rllib_ragen.preflight import preflight
    from rllib_ragen.results import find_baselines
    from rllib_ragen.run_folder import RunFolder
    from rllib_ragen.training import run_training
    from rllib_ragen.watchdog import Watchdog

    preflight(config)
    folder = RunFolder.open(path) if (path / "config.yaml").is_file() else RunFolder.create(config, path.name)
    saved = folder.checkpoints()

    def on_evaluation(found: Sequence[Evaluation]) -> None:
        if found[0].split == "val":
            report(measures(found))

    with (path / "log.txt").open("a", encoding="utf-8") as log:
        display, start = Display(log), saved[-1] if saved else None
        # Not entered: in a trial signals are Tune's.
        interrupt = Interrupt(display.say)
        baselines = find_baselines(config)
        fault = config.fault
        with Watchdog(
            display.say,
            report_after_s=fault.report_after_s,
            hang_timeout_s=fault.hang_timeout_s,
            stacks=path / "hang.txt",
        ):
            training, reason = run_training(config, folder, start, display, interrupt, baselines, on_evaluation)
    early = "" if training.iteration >= config.iterations else f"{reason} (iteration {training.iteration})"
    last = [one for one in training.evaluations if (one.split, one.iteration) == ("val", training.iteration)]
    return {**measures(last), "finished": True, "stopped": early}


def measures(found: Sequence[Evaluation]) -> dict[str, float]:
    """What the objectives and schedulers look at, from one validation."""
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
    """The sweep that was saved in its folder. Raises ConfigError if this version cannot read it."""
    return read_sweep(read_yaml(sweep / SPEC_FILE))


def resources_of(config: RunConfig) -> PlacementGroupFactory:
    """What one run asks Ray for: the driver with a local learner, each runner, each remote learner."""
    from ray.tune import PlacementGroupFactory

    rollout, learner = config.rollout, config.learner
    local = learner.num_gpus_per_learner if learner.num_learners == 0 else 0
    bundles: list[dict[str, float]] = [_bundle(local)]
    bundles += [_bundle(rollout.num_gpus_per_env_runner)] * rollout.num_env_runners
    bundles += [_bundle(learner.num_gpus_per_learner)] * learner.num_learners
    return PlacementGroupFactory(bundles, strategy="PACK")


def _bundle(gpus: float) -> dict[str, float]:
    return {"CPU": 1, "GPU": gpus} if gpus else {"CPU": 1}
