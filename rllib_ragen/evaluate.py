"""Evaluates a trained run or any model folder: `python -m rllib_ragen.evaluate results/RUN --split test`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ragen_envs.splits import Split
from rllib_ragen.config.command_line import make_parser, positive, read_layers, run_command
from rllib_ragen.config.load import flatten, merge, preset
from rllib_ragen.config.paths import enter_model
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.faults.ending import leave
from rllib_ragen.faults.exit_codes import NothingPlayed
from rllib_ragen.faults.watchdog import Watchdog, on_stderr
from rllib_ragen.run.evaluation import Evaluation, find_baselines, outcome_lines, scale_line
from rllib_ragen.run.folder import RunFolder, SavedState, is_run_folder
from rllib_ragen.run.preflight import preflight
from rllib_ragen.run.start_ray import start_ray
from rllib_ragen.starpo.checks.build_config import build_config

_SHOWN = ("return_mean", "turns_mean", "valid_ratio", "reply_tokens_mean", "num_failed")
_FLAGS = ("--env", "--engine", "--num-env-runners", "--seed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command → its exit code: 0 done, 2 bad input, others as in docs/faults.md."""
    options = parse(arguments)

    def work() -> None:
        config, saved = plan(options)
        print(f"sampling  {preflight(config, writes=False).why}", flush=True)
        number, fault = options.num_instances or config.eval.num_test_instances or 256, config.fault
        with Watchdog(on_stderr, report_after_s=fault.report_after_s, hang_timeout_s=fault.hang_timeout_s):
            evaluate(config, saved, options.split, number)

    return run_command(work, keys=options.keys)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = make_parser(
        "evaluate", "Success of a model on instances of one split, sampled (rollout.temperature) and greedy.", _FLAGS
    )
    parser.add_argument("model", metavar="RUN_OR_MODEL", help="run folder, model folder, or tiny")
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
    return parser.parse_args(arguments)


def plan(options: argparse.Namespace) -> tuple[RunConfig, SavedState | None]:
    """Returns the config for the evaluation, and the checkpoint to load (None: the model folder as it is).

    Raises:
        ConfigError: whatever is wrong, in one sentence.
    """
    given = merge(*read_layers(options))
    model = enter_model(options.model)
    path = Path(model)
    if is_run_folder(path):
        folder = RunFolder.open(path)
        best = folder.best_checkpoint() if options.checkpoint == "best" else None
        return build_config(folder.config().model_dump(), given), best or folder.newest_checkpoint()
    name = str(flatten(given).get("env.name", RunConfig().env.name))
    return build_config(preset(name), given, {"model": {"path": model}}), None


def evaluate(config: RunConfig, saved: SavedState | None, split: str, num_instances: int) -> None:
    """Evaluates, and prints the success rates beside floor and ceiling.

    Raises:
        ConfigError: Ray lacks resources that the config asks for.
        NothingPlayed: every episode failed.
    """
    baselines = find_baselines(config)
    start_ray(config)
    from rllib_ragen.run.log import measured
    from rllib_ragen.run.loop import build, load

    algo = build(config)
    try:
        if saved:
            load(algo, saved)
        where = f"{saved.path.parent.name}/{saved.path.name}" if saved else config.model.path
        print(f"{config.env.name}, {split} split, {where}", flush=True)
        for greedy in (False, True):
            result = measured(algo.evaluate_split(split, num_instances, greedy))
            if result["success"] is None:
                raise NothingPlayed(f"every one of the {num_instances} episodes failed: {algo.evaluation_error}")
            instances = algo.success_by_instance
            row = {"iteration": 0, "split": split, "greedy": greedy, **result, "instances": instances}
            more = ", ".join(
                f"{name} {value:.3g}" for name, value in result.items() if name in _SHOWN and value is not None
            )
            found = Evaluation.from_row(row, config.rollout.temperature)
            print("\n".join([f"{found.way:8} {found}  ({found.count}; {more})", *outcome_lines(found)]), flush=True)
        print(f"on this scale: {scale_line(baselines)}")
    finally:
        algo.stop()


if __name__ == "__main__":
    leave(main)
