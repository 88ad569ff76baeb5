"""Searches over runs: `python -m rllib_ragen.sweep tune_configs/sweeps/clip.yaml`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rllib_ragen.config.command_line import Parser, run_command
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import read_yaml
from rllib_ragen.faults.ending import leave
from rllib_ragen.run.preflight import check_writable, preflight
from rllib_ragen.sweep.spec import SweepSpec, read_sweep, save_sweep
from rllib_ragen.sweep.trial import SPEC_FILE, load_spec


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the command; its exit code: 0 done, 1 no run succeeded, 2 bad input."""
    options = parse(arguments)

    def work() -> int:
        spec, folder = plan_resume(options) if options.resume else plan(options)
        from rllib_ragen.sweep.tuning import tune_sweep

        return tune_sweep(spec, folder, resume=options.resume is not None)

    return run_command(work)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the command line."""
    parser = Parser(
        prog="python -m rllib_ragen.sweep",
        description="Runs many configurations of one sweep file with Ray Tune and Optuna, and compares them.",
        allow_abbrev=False,
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="sweep file (tune_configs/sweeps/*.yaml)")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="sweep folder to go on with")
    parser.add_argument("--smoke", action="store_true", help="two small runs: whether it works, not what it finds")
    parser.add_argument("--trials", type=int, metavar="N", help="configurations, instead of the file's")
    parser.add_argument("--name", metavar="WORD", help="folder's and study's name, instead of the file's")
    parser.add_argument("--results-dir", type=Path, default=Path("results"), metavar="DIR", help="[results]")
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
    spec = read_sweep(given, smoke=options.smoke)
    if find_spec("matplotlib") is None or find_spec("jinja2") is None:
        raise ConfigError("a sweep's report needs matplotlib and jinja2 (pip install 'rllib_ragen[report]')")
    check_writable(options.results_dir)
    preflight(spec.first_config(), writes=False)
    folder = (options.results_dir / spec.name).absolute()
    if folder.exists():
        way_out = f"--resume {folder}" if (folder / SPEC_FILE).is_file() else "delete it: it holds no sweep"
        raise ConfigError(f"name: {folder} exists already; give another --name, or {way_out}")
    folder.mkdir(parents=True)
    save_sweep(spec, folder / SPEC_FILE)
    return spec, folder


def plan_resume(options: argparse.Namespace) -> tuple[SweepSpec, Path]:
    """Returns the saved sweep.

    Raises:
        ConfigError: the folder is none of a sweep.
    """
    folder = options.resume.absolute()
    if not (folder / SPEC_FILE).is_file():
        raise ConfigError(f"{folder} is no sweep folder: it has no {SPEC_FILE}")
    return load_spec(folder), folder


if __name__ == "__main__":
    leave(main)
