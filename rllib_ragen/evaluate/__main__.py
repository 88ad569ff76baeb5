"""Evaluates runs and models: `python -m rllib_ragen.evaluate results/RUN --split test --env sokoban sokoban/8x8`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ragen_envs.splits import Split
from rllib_ragen.config.command_line import make_parser, path_option, positive, run_command
from rllib_ragen.config.printable import word
from rllib_ragen.evaluate.environments import listing
from rllib_ragen.evaluate.plan import Job, plan
from rllib_ragen.faults.ending import leave
from rllib_ragen.faults.watchdog import Watchdog, on_stderr
from rllib_ragen.run.model_fit import misfits
from rllib_ragen.run.preflight import preflight
from rllib_ragen.run.start_ray import cpus_wanted, start_ray

_FLAGS = ("--engine", "--num-env-runners", "--seed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the command; its exit code: 0 done, 2 bad input, others as in docs/faults.md."""
    options = parse(arguments)
    if options.list:
        return run_command(lambda: print(listing()))

    def work() -> None:
        jobs = plan(options)
        for job in jobs:
            choice = preflight(job.config, writes=False, taught=not job.warning)
            print(f"sampling  {choice.why}", flush=True)
            for misfit in misfits(job.config):
                print(f"warning   {misfit}", flush=True)
        fault = jobs[0].config.fault
        with Watchdog(on_stderr, report_after_s=fault.report_after_s, hang_timeout_s=fault.hang_timeout_s):
            _evaluate(jobs, options)

    return run_command(work, keys=options.keys)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the command line."""
    parser = make_parser(
        "evaluate",
        "Success of models on instances of one split, sampled (eval.temperature) and greedy, in one or several"
        " environments.",
        _FLAGS,
    )
    parser.add_argument("models", nargs="*", metavar="RUN_OR_MODEL", help="run folders, model folders, or tiny")
    parser.add_argument(
        "--env",
        dest="envs",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="environments, or presets of them as sokoban/8x8 [the run's own, or sokoban]",
    )
    parser.add_argument(
        "--list", action="store_true", help="list environments and presets with floor and ceiling, and stop"
    )
    parser.add_argument(
        "--checkpoint",
        choices=["best", "newest"],
        default="best",
        metavar="WORD",
        help="of a run: best on validation (newest without validation) or newest [best]",
    )
    parser.add_argument(
        "--split", choices=[*Split], default=Split.TEST, metavar="WORD", help="train, val or test [test]"
    )
    parser.add_argument("--num-instances", type=positive, metavar="N", help="how many [as the run, or 256]")
    parser.add_argument(
        "--out",
        type=path_option,
        metavar="DIR",
        help="folder for figures and trajectories [RUN/evaluations/DATE, or results/evaluation-DATE]",
    )
    options = parser.parse_args(arguments)
    if not options.models and not options.list and not options.keys:
        parser.error("give run folders, model folders, or tiny")
    return options


def _evaluate(jobs: Sequence[Job], options: argparse.Namespace) -> None:
    from rllib_ragen.evaluate.play import evaluate
    from rllib_ragen.evaluate.record import EvaluationRecord, place_of
    from rllib_ragen.evaluate.table import table

    first = jobs[0].config
    number = options.num_instances or first.eval.num_test_instances or 256
    record = EvaluationRecord(place_of(jobs, options.out), options.split, number)
    # A Ray that is started here is started for the largest.
    start_ray(max((job.config for job in jobs), key=cpus_wanted))
    results = []
    for job in jobs:
        start_ray(job.config)
        results.append((job, evaluate(job, options.split, number, record, lambda text: print(text, flush=True))))
    if len(jobs) > 1:
        print(f"\n{table(results)}")
    print(f"figures, trajectories  {word(record.folder)}", flush=True)


if __name__ == "__main__":
    leave(main)
