"""`rllib-ragen COMMAND …`, the console script: `python -m rllib_ragen.COMMAND`, with the same options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import NoReturn

from rllib_ragen.faults.ending import leave

COMMANDS = {
    "run": ("rllib_ragen.run.__main__:main", "trains an agent on an environment or a game"),
    "sweep": ("rllib_ragen.sweep.__main__:main", "many runs: a search space, Ray Tune and Optuna"),
    "evaluate": ("rllib_ragen.evaluate.__main__:main", "success of a run or model on unseen instances"),
    "report": ("rllib_ragen.report.__main__:main", "runs as one HTML page"),
    "play": ("rllib_ragen.play.__main__:main", "plays one episode: you, or a model"),
    "tournament": ("rllib_ragen.tournament.__main__:main", "models and scripts play a game against each other, rated"),
    "gradients": ("rllib_ragen.commands.gradients:main", "gradient norms of the loss's terms, by reward std"),
    "new_env": ("rllib_ragen.commands.new_env.__main__:main", "writes a package with an environment to start from"),
}
"""Import path of each command's main (a path, because commands are above this floor), and a description."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the first argument names → its exit code, 2 for an unknown command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        print(usage())
        return 0 if given else 2
    command, *rest = given
    if command not in COMMANDS:
        print(f"rllib-ragen: unknown command {command!r}; allowed: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    if not sys.flags.safe_path and str(Path.cwd()) not in sys.path:
        # As with `python -m`, so that import paths reach what lies here; last, so that nothing here hides a package.
        sys.path.append(str(Path.cwd()))
    start: Callable[[Sequence[str]], int] = resolve_name(COMMANDS[command][0])
    return start(rest)


def script() -> NoReturn:
    """Runs `main` as the console script and ends the process."""
    leave(main)


def usage() -> str:
    """Returns the help text: the commands, one line each."""
    lines = [f"  {name:12} {does}" for name, (_, does) in COMMANDS.items()]
    return "\n".join(["usage: rllib-ragen COMMAND [options]; COMMAND --help lists the options", "", *lines])
