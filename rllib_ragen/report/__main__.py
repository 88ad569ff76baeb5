"""Writes the report of one run, or of several side by side: `python -m rllib_ragen.report results/RUN`."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from rllib_ragen.config.command_line import Parser, path_option, positive, run_command
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.faults.ending import leave


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command → its exit code: 0 done, 2 bad input."""
    options = parse(arguments)

    def work() -> None:
        print(f"report  {write_report(options.runs, options.out, options.max_trajectories)}")

    return run_command(work)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = Parser(
        prog="python -m rllib_ragen.report",
        description="One HTML page of run folders: curves, regimes, alarms, times, trajectories. Runs that differ in"
        " their seed only are drawn as one curve with its std.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=26, width=140),
        allow_abbrev=False,
    )
    parser.add_argument("runs", nargs="+", type=path_option, metavar="RUN", help="run folder; may still be training")
    parser.add_argument(
        "--out", type=path_option, metavar="FILE", help="page to write [RUN/report.html of the first run]"
    )
    parser.add_argument(
        "--max-trajectories", type=positive, default=600, metavar="N", help="trajectories of each run in the page [600]"
    )
    return parser.parse_args(arguments)


def write_report(paths: Sequence[Path], out: Path | None, max_trajectories: int) -> Path:
    """Writes the page of the runs in `paths` → its path.

    Raises:
        ConfigError: a path that is not a run folder, the same run twice, a file that cannot be written, or no
            matplotlib.
    """
    if max_trajectories < 1:
        raise ConfigError(f"--max-trajectories must be an integer ≥ 1, got {max_trajectories}")
    if len({path.resolve() for path in paths}) < len(paths):
        raise ConfigError("the same run folder is given twice")
    for package in ("matplotlib", "jinja2"):
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"the report needs {package}: pip install 'rllib-ragen[report]'")
    from rllib_ragen.report.data import read_run
    from rllib_ragen.report.render import render

    runs = [read_run(path) for path in paths]
    target = out or paths[0] / "report.html"
    page = render(runs, max_trajectories)
    try:
        target.write_text(page, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigError(f"--out: cannot write {target}: {error.strerror}") from None
    return target


if __name__ == "__main__":
    leave(main)
