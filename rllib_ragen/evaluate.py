"""Evaluates a trained run or any model folder: `python -m rllib_ragen.evaluate results/RUN --split test`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragen_envs.splits import Split
from rllib_ragen.config.command_line import make_parser, positive, read_layers, run_command
from rllib_ragen.config.environments import environments_told, without_label
from rllib_ragen.config.load import base_of, merge
from rllib_ragen.config.paths import enter_model
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.faults.ending import leave
from rllib_ragen.faults.exit_codes import NothingPlayed
from rllib_ragen.faults.watchdog import Watchdog, on_stderr
from rllib_ragen.run.evaluation import Evaluation, outcome_lines
from rllib_ragen.run.folder import RunFolder, SavedState, is_run_folder
from rllib_ragen.run.preflight import preflight
from rllib_ragen.run.several import find_scales, scales_line
from rllib_ragen.run.start_ray import start_ray
from rllib_ragen.starpo.checks.build_config import build_config

_SHOWN = ("return_mean", "turns_mean", "valid_ratio", "reply_tokens_mean", "num_failed")
_FLAGS = ("--env", "--engine", "--num-env-runners", "--seed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the command; its exit code: 0 done, 2 bad input, others as in docs/faults.md."""
    options = parse(arguments)

    def work() -> None:
        config, saved = plan(options)
        print(f"sampling  {preflight(config, writes=False).why}", flush=True)
        number, fault = options.num_instances or config.eval.num_test_instances or 256, config.fault
        with Watchdog(on_stderr, report_after_s=fault.report_after_s, hang_timeout_s=fault.hang_timeout_s):
            evaluate(config, saved, options.split, number, asked_label(config, options))

    return run_command(work, keys=options.keys)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the command line."""
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
    """Returns the config to evaluate under, and the checkpoint to load into it (None: the model folder as it is).

    Raises:
        ConfigError: whatever is wrong, in one sentence.
    """
    given = merge(*read_layers(options))
    model = enter_model(options.model)
    path = Path(model)
    if is_run_folder(path):
        folder = RunFolder.open(path)
        best = folder.best_checkpoint() if options.checkpoint == "best" else None
        of_run = folder.config()
        given, _ = without_label(of_run, given)
        return build_config(of_run.model_dump(), given), best or folder.newest_checkpoint()
    return build_config(base_of(given), given, {"model": {"path": model}}), None


def asked_label(config: RunConfig, options: argparse.Namespace) -> str | None:
    """Returns the label of the one of several environments that `--env` names; None: all, or there is only one."""
    return without_label(config, merge(*read_layers(options)))[1]


def evaluate(
    config: RunConfig, saved: SavedState | None, split: str, num_instances: int, label: str | None = None
) -> None:
    """Prints the success rates beside floor and ceiling; of several environments those of each, or of the one called
    `label`.

    Raises:
        ConfigError: Ray has not what the config asks for.
        NothingPlayed: every episode failed.
    """
    scales = find_scales(config, label)
    start_ray(config)
    from rllib_ragen.run.log import measured
    from rllib_ragen.run.loop import build, load

    algo = build(config)
    try:
        if saved:
            load(algo, saved)
        where = f"{saved.path.parent.name}/{saved.path.name}" if saved else config.model.path
        print(f"{label or environments_told(config)}, {split} split, {where}", flush=True)
        for greedy in (False, True):
            result = measured(algo.evaluate_split(split, num_instances, greedy, label))
            if result["success"] is None:
                raise NothingPlayed(f"every one of the {num_instances} episodes failed: {algo.evaluation_error}")
            instances = algo.success_by_instance
            row = {"iteration": 0, "split": split, "greedy": greedy, **result, "instances": instances}
            found = Evaluation.from_row(row, config.rollout.temperature)
            print("\n".join(lines_of(found, result, alone=label is not None)), flush=True)
        print(f"on this scale: {scales_line(scales)}")
    finally:
        algo.stop()


def lines_of(found: Evaluation, result: Mapping[str, float | None], *, alone: bool = False) -> list[str]:
    """Returns an evaluation as lines: the whole, and each of its parts; `alone`: only the parts."""
    lines = []
    for path, part in [*([] if alone else [("", found)]), *found.parts.items()]:
        prefix = f"{path}/" if path else ""
        values = {name: result.get(f"{prefix}{name}") for name in _SHOWN}
        more = ", ".join(f"{name} {value:.3g}" for name, value in values.items() if value is not None)
        name = f"{path}: " if path else "mean over environments: " if found.is_mean else ""
        lines += [f"{part.way:8} {name}{part}  ({part.count}; {more})", *outcome_lines(part)]
    return lines


if __name__ == "__main__":
    leave(main)
