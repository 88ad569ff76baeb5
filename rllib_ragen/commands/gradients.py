"""Gradient norms of the loss's terms by the groups' reward std: `python -m rllib_ragen.gradients results/RUN`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rllib_ragen.config.command_line import make_parser, path_option, positive, read_layers, run_command
from rllib_ragen.config.environments import environments_told
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import merge
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.faults.ending import leave
from rllib_ragen.run.folder import RunFolder, SavedState, is_run_folder
from rllib_ragen.run.preflight import preflight
from rllib_ragen.run.start_ray import start_ray
from rllib_ragen.starpo.checks.build_config import build_config

_FLAGS = ("--engine", "--num-env-runners", "--num-groups", "--group-size")
_BUCKETS = 6
"""Default number of buckets of the table: as many as a run logs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command → its exit code: 0 done, 2 bad input."""
    options = parse(arguments)

    def work() -> None:
        config, saved, out = plan(options)
        print(f"sampling  {preflight(config, writes=False).why}", flush=True)
        measure(config, saved, options.buckets, out)

    return run_command(work, keys=options.keys)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = make_parser(
        "gradients",
        "Plays the batch that would be trained on next, sorts its groups by reward std into buckets, and prints the"
        " gradient norms of each bucket's task, entropy and KL terms. No step is taken.",
        _FLAGS,
    )
    parser.add_argument(
        "run", type=path_option, metavar="RUN_OR_CHECKPOINT", help="run folder (newest checkpoint) or one"
    )
    parser.add_argument("--buckets", type=positive, default=_BUCKETS, metavar="N", help=f"at most [{_BUCKETS}]")
    parser.add_argument("--out", type=path_option, metavar="FILE", help="JSON [RUN/gradients_ITERATION.json]")
    return parser.parse_args(arguments)


def plan(options: argparse.Namespace) -> tuple[RunConfig, SavedState, Path]:
    """Returns the run's config, the checkpoint, and the file to write.

    Raises:
        ConfigError: whatever is wrong, in one sentence.
    """
    given = merge(*read_layers(options))
    path: Path = options.run.resolve()
    # A checkpoint is RUN/checkpoints/iteration_000020.
    folder = RunFolder(path if is_run_folder(path) else path.parent.parent)
    chosen = {one.path.resolve(): one for one in folder.checkpoints()}
    if not is_run_folder(folder.path) or (folder.path != path and path not in chosen):
        raise ConfigError(f"{options.run} is neither a run folder nor one of a run's checkpoints")
    saved = folder.newest_checkpoint() if folder.path == path else chosen[path]
    out: Path = options.out or folder.path / f"gradients_{saved.path.name}.json"
    if not out.parent.is_dir():
        raise ConfigError(f"--out: there is no folder {out.parent}")
    return build_config(folder.config().model_dump(), given), saved, out


def measure(config: RunConfig, saved: SavedState, num_buckets: int, out: Path) -> None:
    """Measures the gradients, prints the table and writes the JSON.

    Raises:
        ConfigError: Ray lacks resources that the config asks for, or every episode failed.
    """
    start_ray(config)
    from rllib_ragen.diagnostics.gradient_buckets import gradient_table
    from rllib_ragen.run.loop import build, load

    kl_coeff = config.learner.kl_coeff
    # Without a coefficient the reference would not be there to measure the KL term against.
    config.learner.kl_coeff = kl_coeff or 1.0
    algo = build(config)
    try:
        load(algo, saved)
        found = algo.gradients(num_buckets)
    finally:
        algo.stop()
    if not found.buckets:
        raise ConfigError(
            f"{saved.path}: no episode of {environments_told(config)} has a sampled token; play it to see why"
        )
    found = replace(found, coefficients=found.coefficients | {"kl": kl_coeff})
    shape = f"{config.rollout.num_groups} groups of {config.rollout.group_size}"
    print(f"{environments_told(config)}, iteration {saved.iteration}, {shape}; norms of each bucket's mean gradient:")
    print(gradient_table(found))
    tree = {"checkpoint": str(saved.path), "iteration": saved.iteration, **found.to_json()}
    out.write_text(json.dumps(tree, indent=2) + "\n", encoding="utf-8")
    print(f"json      {out}")


if __name__ == "__main__":
    leave(main)
