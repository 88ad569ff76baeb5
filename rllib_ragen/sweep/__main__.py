"""Searches over runs: `python -m rllib_ragen.sweep tune_configs/sweeps/clip.yaml`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rllib_ragen.config.command_line import Parser, path_option, positive, run_command
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import read_yaml
from rllib_ragen.config.paths import enter_path
from rllib_ragen.config.printable import word
from rllib_ragen.faults.ending import leave
from rllib_ragen.run.preflight import check_writable, preflight
from rllib_ragen.run.trackers.registry import check_trackers
from rllib_ragen.sweep.spec import CHECKED_COMBINATIONS, SweepSpec, read_sweep, save_sweep, told
from rllib_ragen.sweep.trial import SPEC_FILE, load_spec


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command → its exit code: 0 done, 1 no run succeeded, 2 bad input."""
    options = parse(arguments)

    def work() -> int:
        spec, folder = plan_resume(options) if options.resume else plan(options)
        from rllib_ragen.sweep.tuning import tune_sweep

        return tune_sweep(spec, folder, resume=options.resume is not None)

    return run_command(work)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = Parser(
        prog="python -m rllib_ragen.sweep",
        description="Runs many configurations of one sweep file with Ray Tune and Optuna, and compares them.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "file", nargs="?", type=path_option, metavar="FILE", help="sweep file (tune_configs/sweeps/*.yaml)"
    )
    parser.add_argument("--resume", type=path_option, metavar="DIR", help="sweep folder to go on with")
    parser.add_argument("--smoke", action="store_true", help="two small runs: whether it works, not what it finds")
    parser.add_argument("--trials", type=positive, metavar="N", help="configurations, instead of the file's")
    parser.add_argument("--name", metavar="WORD", help="folder's and study's name, instead of the file's")
    parser.add_argument("--results-dir", type=path_option, default=Path("results"), metavar="DIR", help="[results]")
    options = parser.parse_args(arguments)
    if (options.file is None) == (options.resume is None):
        parser.error("give either a sweep file or --resume DIR")
    if options.resume is not None and (options.smoke or options.trials or options.name):
        parser.error("--resume takes everything from the sweep's folder")
    return options


def plan(options: argparse.Namespace) -> tuple[SweepSpec, Path]:
    """Returns a new sweep and its folder.

    Raises:
        ConfigError: whatever is wrong, in one sentence.
    """
    given = read_yaml(options.file)
    for key in ("trials", "name"):
        if getattr(options, key) is not None:
            given[key] = getattr(options, key)
    spec = read_sweep(given, options.file.parent, smoke=options.smoke)
    if find_spec("matplotlib") is None or find_spec("jinja2") is None:
        raise ConfigError("a sweep's report needs matplotlib and jinja2 (pip install 'rllib_ragen[report]')")
    check_writable(options.results_dir)
    check_models(spec)
    folder = enter_path(options.results_dir) / spec.name
    if folder.exists():
        way_out = f"--resume {word(folder)}" if (folder / SPEC_FILE).is_file() else "delete it: it holds no sweep"
        raise ConfigError(f"name: {folder} exists already; give another --name, or {way_out}")
    folder.mkdir(parents=True)
    save_sweep(spec, folder / SPEC_FILE)
    return spec, folder


def check_models(spec: SweepSpec) -> None:
    """Runs the preflight of every kind of run in the sweep, once for each model and its settings.

    Raises:
        ConfigError: with the values of the first kind that fails.
    """
    seen: set[str] = set()
    for values in spec.combinations()[:CHECKED_COMBINATIONS]:
        config = spec.config(values, spec.seeds[0])
        asked = config.model_dump_json(include={"env", "envs", "model", "rollout", "learner", "trackers"})
        if asked in seen:
            continue
        seen.add(asked)
        try:
            check_trackers(config.trackers)
            preflight(config, writes=False)
        except ConfigError as error:
            raise ConfigError(
                f"with {told(values)}: {error}" if config != spec.first_config() else str(error)
            ) from None


def plan_resume(options: argparse.Namespace) -> tuple[SweepSpec, Path]:
    """Returns the saved sweep.

    Raises:
        ConfigError: the folder is not a sweep's.
    """
    folder = options.resume
    if not (folder / SPEC_FILE).is_file():
        raise ConfigError(f"{folder} is no sweep folder: it has no {SPEC_FILE}")
    spec = load_spec(folder)
    check_models(spec)
    return spec, folder


if __name__ == "__main__":
    leave(main)
