"""The sweep under Ray Tune: scheduler, resources, failures, and display."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, MedianStoppingRule

from ragen_envs.tree import Tree
from rllib_ragen.config.printable import command
from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.run.start_ray import start_ray
from rllib_ragen.sweep.console import SweepLines
from rllib_ragen.sweep.place import drive, study_url
from rllib_ragen.sweep.population import population_options, population_scheduler, population_space
from rllib_ragen.sweep.population_member import member_name, play_member
from rllib_ragen.sweep.report import write_report
from rllib_ragen.sweep.search import StudySearch
from rllib_ragen.sweep.spec import MINIMISED, SweepSpec
from rllib_ragen.sweep.study import SweepStudy
from rllib_ragen.sweep.table import SweepTable
from rllib_ragen.sweep.trial import play_trial, resources_of

NO_SUCCESS = 1
"""Exit code of a sweep without any finished run."""
_TUNE = "tune"


def tune_sweep(spec: SweepSpec, folder: Path, *, resume: bool) -> int:
    """Runs the sweep to its end and writes its report → 0, 1 if no configuration succeeded, 130 after Ctrl-C.

    Raises:
        ConfigError: Ray lacks resources for one run, or the study is of another space.
    """
    config = spec.first_config()
    drive(folder)
    study = SweepStudy(spec, folder)
    start_ray(config)
    # Tune's newer output draws its own boxes, whatever it is told.
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message="Consider boosting PBT performance")
    print(f"sweep folder  {folder}\nstudy         {study_url(folder)}")
    print(f"to try        {spec.num_trials} configurations × {len(spec.seeds)} seeds", flush=True)
    try:
        tuner(spec, folder, resume).fit()
    except SystemExit:
        # Ray makes one of SIGTERM, which `ray job stop` sends.
        print(f"Stopped. To go on: {command('sweep', '--resume', folder)}", flush=True)
        raise
    if study.to_play() or study.num_asked < spec.num_trials:
        # Tune takes SIGINT for itself, and returns.
        print(f"Stopped. To go on: python -m rllib_ragen.sweep --resume {folder}", flush=True)
        return ExitCode.INTERRUPTED
    best = study.best()
    write_report(spec, study, folder)
    print(f"\n{SweepTable(study, spec).text()}\n")
    if not best:
        print(f"No configuration succeeded. {where_it_says_why(folder)}")
        return NO_SUCCESS
    print(f"report        {folder / 'report.html'}, trials.csv")
    print(f"best config   {folder / 'best.yaml'}  ({command('run', '--config', folder / 'best.yaml')})")
    return 0


def where_it_says_why(folder: Path) -> str:
    """Returns the files with the errors of failed runs: Tune's for each, and the runs' own logs, in words."""
    told = [*sorted(folder.glob(f"{_TUNE}/*/error.txt")), *sorted(folder.glob("runs/*/log.txt"))]
    return "\n  ".join(["Why is in:", *map(str, told)]) if told else "No run came as far as a log."


def tuner(spec: SweepSpec, folder: Path, resume: bool) -> Any:
    """Makes a new Tuner, or restores the saved one; a sweep that was killed before Tune saved anything begins again."""
    play = play_member if spec.is_population else play_trial
    trainable = tune.with_resources(tune.with_parameters(play, sweep=folder), resources_of(spec.first_config()))
    state = folder / _TUNE
    if resume and tune.Tuner.can_restore(str(state)):
        return tune.Tuner.restore(str(state), trainable, resume_unfinished=True, resume_errored=False)
    search: Tree = {"search_alg": StudySearch(spec), "num_samples": spec.num_trials * len(spec.seeds)}
    options: Tree = {"callbacks": []}
    space: Tree = {}
    name: Callable[[Trial], str] = _trial_id
    if spec.is_population:
        space = population_space(spec, SweepStudy(spec, folder))
        search, options = {}, population_options(spec)
        name = _member
    options["callbacks"].append(SweepLines(spec.objectives))
    return tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(
            **search,
            scheduler=_scheduler(spec),
            max_concurrent_trials=spec.max_concurrent,
            trial_dirname_creator=name,
        ),
        run_config=tune.RunConfig(
            name=_TUNE,
            storage_path=str(folder),
            failure_config=tune.FailureConfig(max_failures=spec.retries),
            verbose=0,
            **options,
        ),
    )


def _trial_id(trial: Trial) -> str:
    return str(trial.trial_id)


def _member(trial: Trial) -> str:
    return member_name(trial.config["number"])


def _scheduler(spec: SweepSpec) -> Any:
    objective = spec.objectives[0]
    mode = "min" if objective in MINIMISED else "max"
    if spec.is_population:
        return population_scheduler(spec, mode)
    common = {"time_attr": "iteration", "metric": objective, "mode": mode}
    if spec.scheduler == "asha":
        iterations = spec.first_config().iterations
        return ASHAScheduler(**common, grace_period=spec.grace_iterations, max_t=iterations + 1, reduction_factor=3)
    if spec.scheduler == "median":
        return MedianStoppingRule(**common, grace_period=spec.grace_iterations)
    return FIFOScheduler()
