"""Writes a package with a working environment, its test, YAML and README: `python -m rllib_ragen.new_env my_world`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rllib_ragen.commands.new_env.write import class_name, write_package
from rllib_ragen.config.command_line import Parser, run_command
from rllib_ragen.faults.ending import leave


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command → its exit code: 0 done, 2 bad input."""
    parser = Parser(
        prog="python -m rllib_ragen.new_env",
        description="Writes the folder NAME: a package with a small working environment to change into yours, its test,"
        " a run's settings (NAME.yaml) and a README that says how to check, play and train it.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="NAME", help="name of package and environment: small letters, digits and _")
    options = parser.parse_args(arguments)

    def work() -> None:
        for file in write_package(options.name, Path.cwd()):
            print(file)
        path = f"{options.name}.world:{class_name(options.name)}"
        print(f"next: cd {options.name} && python -m ragen_envs.certify {path}")

    return run_command(work)


if __name__ == "__main__":
    leave(main)
