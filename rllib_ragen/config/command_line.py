"""What the commands' options are and how they become a config. Imports nothing heavy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from pydantic.fields import FieldInfo

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import flatten, merge, nest, parse_assignments
from rllib_ragen.config.messages import allowed
from rllib_ragen.config.schema import RunConfig, Section
from rllib_ragen.faults.exit_codes import FORESEEN, ExitCode, exit_code_of, sentence_of

FLAGS = {
    "--env": "env.name",
    "--model": "model.path",
    "--engine": "rollout.engine",
    "--estimator": "credit.estimator",
    "--num-groups": "rollout.num_groups",
    "--group-size": "rollout.group_size",
    "--lr": "learner.lr",
    "--num-env-runners": "rollout.num_env_runners",
    "--num-learners": "learner.num_learners",
    "--iterations": "iterations",
    "--time-limit": "time_limit_s",
    "--seed": "seed",
    "--results-dir": "results_dir",
    "--name": "name",
}
"""Options that are keys of the config, by their names there."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, with exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        print(f"{self.prog}: {message}; --help lists the options", file=sys.stderr)
        raise SystemExit(2)


def make_parser(command: str, description: str, flags: Sequence[str] = tuple(FLAGS)) -> Parser:
    """Returns a parser with the config's options; every option's help is one line."""
    parser = Parser(
        prog=f"python -m rllib_ragen.{command}",
        description=description,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=26, width=140),
        allow_abbrev=False,
    )
    for flag in flags:
        key = FLAGS[flag]
        field = field_of(key)
        default = "" if field.default is None else f" [{field.default}]"
        metavar = "X" if "number" in allowed(field) else "N" if "integer" in allowed(field) else "WORD"
        parser.add_argument(flag, dest=key, metavar=metavar, help=f"{field.description}{default}")
    parser.add_argument(
        "--set", dest="assignments", metavar="K=V", nargs="+", action="extend", default=[],
        help="any key, as in learner.lr=1e-4; wins over everything else (may be repeated)",
    )  # fmt: skip
    parser.add_argument("--keys", action="store_true", help="list every key of --set and YAML, and stop")
    return parser


def run_command(work: Callable[[], int | None], *, keys: bool = False) -> int:
    """Says what every command does around its work: ends that were foreseen are told in one sentence; `keys` lists the
    keys.

    Returns:
        The exit code: what `work` returned, None for 0, or that of the error.
    """
    if keys:
        print(key_table())
        return ExitCode.DONE
    try:
        return work() or ExitCode.DONE
    except ConfigError as error:
        print(f"rllib_ragen: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    except FORESEEN as error:
        code = exit_code_of(error)
        print(f"rllib_ragen: {sentence_of(error, code)}", file=sys.stderr)
        return code
    except KeyboardInterrupt:
        print("rllib_ragen: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED


def read_layers(options: argparse.Namespace) -> tuple[Tree, Tree]:
    """Returns (what the flags say, what `--set` says), as nested mappings.

    Raises:
        ConfigError: a `--set` that cannot be read.
    """
    given: Tree = {key: getattr(options, key, None) for key in FLAGS.values()}
    flags = merge(*(nest(key, value) for key, value in given.items() if value is not None))
    return flags, parse_assignments(options.assignments)


def positive(text: str) -> int:
    """Returns an option's value. Raises argparse.ArgumentTypeError if it is no whole number ≥ 1."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer ≥ 1, got {text!r}")
    return int(text)


def field_of(key: str) -> FieldInfo:
    """Returns the schema's field for a dotted key. Raises KeyError if there is none."""
    fields = RunConfig.model_fields
    *sections, last = key.split(".")
    for name in sections:
        section = fields[name].annotation
        assert isinstance(section, type)
        assert issubclass(section, Section)
        fields = section.model_fields
    return fields[last]


def key_table() -> str:
    """Returns every key with its default, its range and what it means, one line each."""
    lines = []
    for key, default in flatten(RunConfig().model_dump(mode="json")).items():
        field = field_of(key)
        value = "null" if default is None else str(default).lower() if isinstance(default, bool) else default
        lines.append(f"{key:34} {value!s:22} {allowed(field):34} {field.description}")
    return "\n".join([f"{'key':34} {'default':22} {'allowed':34} meaning", *lines])
