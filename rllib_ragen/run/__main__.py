"""Trains an LLM agent: `python -m rllib_ragen.run --env sokoban`.

Config → checks → build → test → train, with validation and checkpoints → test → what came out and where it lies.
Ray and torch are imported only after the checks, so that bad input is answered at once.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rllib_ragen.config.command_line import make_parser, path_option, read_layers, run_command
from rllib_ragen.config.environments import environments_word
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import (
    algorithm_preset,
    flat_config,
    foundation,
    merge,
    parse_config,
    read_yaml,
    save_config,
)
from rllib_ragen.config.printable import command
from rllib_ragen.config.reward_section import comparable
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name
from rllib_ragen.faults.ending import leave
from rllib_ragen.faults.exit_codes import ExitCode, exit_code_of, sentence_of
from rllib_ragen.faults.interrupt import Interrupt
from rllib_ragen.faults.watchdog import Watchdog
from rllib_ragen.models.tiny.run_model import ensure_run_model
from rllib_ragen.rollout.engines.choose import EngineChoice
from rllib_ragen.run.console import Display, make_display
from rllib_ragen.run.dry_run import dry_run
from rllib_ragen.run.folder import CONFIG_FILE, RunFolder, SavedState
from rllib_ragen.run.model_fit import misfits
from rllib_ragen.run.preflight import preflight
from rllib_ragen.run.several import find_scales, results_tables, task_lines
from rllib_ragen.run.start_ray import start_ray
from rllib_ragen.run.trackers.registry import ways_to_see
from rllib_ragen.starpo.checkpoint.manifest import config_differences, read_manifest
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.starpo.users_names import known_here_alone

if TYPE_CHECKING:
    from rllib_ragen.run.loop import Training

_MAY_CHANGE_ON_RESUME = ("iterations", "time_limit_s", "token_limit", "trackers")


@dataclass(frozen=True)
class Job:
    """The work of the command, after the cheap checks."""

    config: RunConfig
    engine: EngineChoice
    folder: RunFolder
    start: SavedState | None
    """The checkpoint to continue from; None: from the beginning."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command → its exit code (docs/faults.md)."""
    options = parse(arguments)
    if options.dry_run:
        return run_command(lambda: print(dry_run(build_config(*layers(options)))), keys=options.keys)
    return run_command(lambda: run(plan(options)), keys=options.keys)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = make_parser(
        "run",
        "Trains an LLM agent by reinforcement on a text environment. "
        "An environment's own settings (tune_configs/) come before the defaults in brackets.",
    )
    parser.add_argument(
        "--config", type=path_option, metavar="FILE", help="YAML with the same keys, instead of the preset"
    )
    parser.add_argument(
        "--algorithm",
        metavar="WORD",
        help="estimator, filter and loss by one word: starpo_s, grpo … (docs/algorithms.md)",
    )
    parser.add_argument(
        "--self-play", action="store_true", help="one policy at all seats of a game: multi_agent.mode=self_play"
    )
    parser.add_argument(
        "--resume", type=path_option, metavar="DIR", help="run folder to go on from, at its newest checkpoint"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything, say what the run would need, and stop"
    )
    options = parser.parse_args(arguments)
    if options.dry_run and options.resume is not None:
        parser.error("--dry-run is of a new run; --resume goes on with one")
    return options


def plan(options: argparse.Namespace) -> Job:
    """Reads and checks the config, and makes the run's folder.

    Raises:
        ConfigError: whatever is wrong, in one sentence.
    """
    if options.resume is not None:
        for flag in ("config", "algorithm", "self_play"):
            if getattr(options, flag):
                name = flag.replace("_", "-")
                raise ConfigError(f"--resume takes its config from the run folder; --{name} cannot be given with it")
        return plan_resume(RunFolder.open(options.resume), merge(*read_layers(options)))
    return new_job(*layers(options))


def layers(options: argparse.Namespace) -> list[Mapping[str, Any]]:
    """Returns what makes the config of a new run, of which later ones win.

    Raises:
        ConfigError: a file, name or `--set` that cannot be read.
    """
    flags, assignments = read_layers(options)
    given = merge(flags, assignments)
    file = {} if options.config is None else read_yaml(options.config)
    # A file of one's own stands in the place of the environment's, but over the paper's.
    alone = options.config is not None and merge(file, given).get("preset") is None
    base = file if alone else merge(foundation(file, given), file)
    algorithm = {} if options.algorithm is None else algorithm_preset(options.algorithm)
    seats = {"multi_agent": {"mode": "self_play"}} if options.self_play else {}
    return [base, algorithm, seats, flags, assignments]


def new_job(*layers: Mapping[str, Any]) -> Job:
    """Returns a new run with the config of `layers`, of which later ones win; makes the run's folder.

    Raises:
        ConfigError: whatever is wrong, in one sentence.
    """
    config = build_config(*layers)
    engine = preflight(config)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = config.name or f"{environments_word(config)}-{stamp}-seed{config.seed}"
    return Job(config, engine, RunFolder.create(config, name), None)


def plan_resume(folder: RunFolder, given: dict[str, object]) -> Job:
    """Returns the saved run, with at most other limits.

    Raises:
        ConfigError: `given` contradicts the saved config, there is no checkpoint, or the run is finished.
    """
    saved = folder.config()
    config = parse_config(saved.model_dump(), given)
    before, now = flat_config(saved.model_dump()), flat_config(config.model_dump())
    for key in flat_config(given):
        same = now.get(key) == before.get(key)
        if key == "rewards":
            same = comparable(now[key]) == comparable(before[key])
        if not same and key not in _MAY_CHANGE_ON_RESUME:
            raise ConfigError(
                f"{key}: the run in {folder.path} has {before.get(key)!r}; a resumed run may change only"
                f" {', '.join(_MAY_CHANGE_ON_RESUME)}"
            )
    start = folder.newest_checkpoint()
    check_checkpoint(folder, start, config)
    # A run that was stopped after its last iteration has yet to be tested and exported.
    if start.iteration >= config.iterations and folder.is_finished(start.iteration):
        raise ConfigError(
            f"iterations: all {config.iterations} of {folder.path} are done; to go on give --iterations"
            f" above {start.iteration}"
        )
    config.results_dir = folder.path.parent
    engine = preflight(config)
    save_config(config, folder.path / CONFIG_FILE)
    return Job(config, engine, folder, start)


def check_checkpoint(folder: RunFolder, start: SavedState, config: RunConfig) -> None:
    """Checks that `config` can continue from `start`, as far as that is cheap.

    Raises:
        ConfigError: the checkpoint is incomplete, or of another config.
    """
    try:
        manifest = read_manifest(start.path)
    except ValueError as error:
        earlier = [state.iteration for state in folder.checkpoints() if state.iteration < start.iteration]
        how = f"delete {start.path} to go on from iteration {earlier[-1]}" if earlier else "start again"
        raise ConfigError(f"{error}; {how}") from None
    differing = config_differences(manifest["config"], config.model_dump(mode="json"))
    if differing:
        raise ConfigError(f"{folder.path / CONFIG_FILE} and its checkpoint differ: {'; '.join(differing)}")


def run(job: Job) -> int:
    """Does the job → its exit code.

    Raises:
        ConfigError: Ray lacks resources that the run asks for.
    """
    display = make_display(job.folder.path.name)
    fault, folder = job.config.fault, job.folder
    with (
        Interrupt(display.say) as interrupt,
        Watchdog(
            display.say,
            report_after_s=fault.report_after_s,
            hang_timeout_s=fault.hang_timeout_s,
            stacks=folder.path / "hang.txt",
            on_hang=interrupt.give_up,
            last_words=lambda: how_to_go_on(folder),
        ) as watchdog,
    ):
        try:
            return _run(job, display, interrupt)
        except KeyboardInterrupt:
            if watchdog.hung:
                where = folder.path / "hang.txt"
                display.say(f"Stopped: {watchdog.hung}; stacks in {where}. {how_to_go_on(folder)}")
                return ExitCode.HUNG
            display.say(f"Stopped at once. {how_to_go_on(folder)}")
            return interrupt.exit_code
        except ConfigError:
            raise
        except Exception as error:
            code = exit_code_of(error, folder.path)
            if code is ExitCode.ERROR:
                display.say(f"Stopped by the error below. {how_to_go_on(folder)}")
                raise
            # A full disk has no room for the traceback either.
            with suppress(OSError):
                (folder.path / "error.txt").write_text(traceback.format_exc(), encoding="utf-8")
            display.say(f"Stopped: {sentence_of(error, code)}. {how_to_go_on(folder)}")
            return code
        finally:
            display.close()


def _run(job: Job, display: Display, interrupt: Interrupt) -> int:
    config = job.config
    display.say(f"run folder  {job.folder.path}")
    display.say(f"model       {config.model.path}")
    display.say(f"sampling    {job.engine.why}")
    if names := known_here_alone(config):
        display.say(f"note        {', '.join(names)}: registered by this program, not known to --resume and evaluate")
    if not config.envs and game_name(config.env.name) is not None:
        display.say(f"policy      {ensure_run_model(config, display.say)}")
    for misfit in misfits(config):
        display.say(f"warning     {misfit}")
    scales = find_scales(config)
    for line in task_lines(config, scales):
        display.say(f"task        {line}")

    start_ray(config)
    interrupt.install()
    from rllib_ragen.run.loop import Surroundings, run_training

    training, reason = run_training(Surroundings(config, job.folder, display, interrupt, scales), job.start)
    display.close()
    if interrupt.requested:
        display.say(f"Stopped at iteration {training.iteration}, and saved. {how_to_go_on(job.folder)}")
        return interrupt.exit_code
    if training.stop_code is not ExitCode.DONE:
        display.say(f"Stopped after iteration {training.iteration}, because {reason}. {how_to_go_on(job.folder)}")
        return training.stop_code
    tell_results(job, training, reason, display, results_tables(training.evaluations, scales))
    return 0


def tell_results(job: Job, training: Training, reason: str, display: Display, table: str) -> None:
    """Prints the end of a run: the reason, the results, and where they are."""
    path = job.folder.path
    display.say(f"Stopped after iteration {training.iteration}, because {reason}.\n\n{table}\n")
    display.say(f"config, logs   {path / CONFIG_FILE}, progress.csv, progress.jsonl, trajectories.jsonl")
    display.say(f"model          {job.folder.export}  (a transformers folder)")
    if job.config.learner.lora_rank is not None:
        display.say(f"adapter        {job.folder.export_adapter}  (a peft folder)")
    display.say(f"checkpoint     {job.folder.newest_checkpoint().path}")
    if best := job.folder.best_checkpoint():
        display.say(f"best           {best.path}  (on validation; evaluate, below, tells how good it is on others)")
    for way in ways_to_see(job.config, path):
        display.say(f"curves         {way}")
    display.say(f"report         {command('report', path)}")
    if known_here_alone(job.config):
        return
    display.say(f"evaluate       {command('evaluate', path, '--split', 'test')}")
    more = "".join(f" {option}" for option in longer(job.config, training.iteration, reason))
    display.say(f"train longer   {command('run', '--resume', path)}{more}")


def longer(config: RunConfig, iteration: int, reason: str) -> list[str]:
    """Returns options with twice the limits, with which a resumed run does not stop at once for the same `reason`."""
    limits = {
        "time limit": (config.time_limit_s, "--time-limit {:g}"),
        "sampled tokens": (config.token_limit, "--set token_limit={:d}"),
    }
    done = iteration >= config.iterations
    found = [f"--iterations {2 * config.iterations}"] if done else []
    return found + [
        option.format(2 * limit)
        for word, (limit, option) in limits.items()
        if limit is not None and (done or word in reason)
    ]


def how_to_go_on(folder: RunFolder) -> str:
    """Returns the resume command, or a sentence that there is nothing to resume."""
    if not folder.checkpoints():
        return f"There is no checkpoint in {folder.path} yet: start again, under another --name."
    return f"To go on: {command('run', '--resume', folder.path)}"


if __name__ == "__main__":
    leave(main)
