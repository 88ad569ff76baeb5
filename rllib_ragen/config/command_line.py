"""The commands' options, and how they become a config. Imports nothing heavy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, get_args, get_origin

from pydantic.fields import FieldInfo

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import merge, nest, parse_assignments
from rllib_ragen.config.messages import allowed
from rllib_ragen.config.paths import enter_path
from rllib_ragen.config.schema import RESULTS, EntrySection, EnvSection, RunConfig
from rllib_ragen.config.section import MOST, Section, section_of
from rllib_ragen.config.yaml_text import YAMLError, parse_yaml
from rllib_ragen.faults.exit_codes import FORESEEN, ExitCode, exit_code_of, sentence_of

FLAGS = {
    "--env": "env.name",
    "--preset": "preset",
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
"""Config keys by the options that set them."""


_SHOWN = {"results_dir": RESULTS}
"""Defaults that --help shows as they are written, not as absolute paths of this machine."""


class Parser(argparse.ArgumentParser):
    """An argument parser that reports errors in one sentence, with exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Prints the sentence and exits."""
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
        shown = _SHOWN.get(key, field.default)
        default = "" if shown is None else f" [{shown}]"
        metavar = "X" if "number" in allowed(field) else "N" if "integer" in allowed(field) else "WORD"
        parser.add_argument(flag, dest=key, metavar=metavar, help=f"{field.description}{default}")
    parser.add_argument(
        "--set", dest="assignments", metavar="K=V", nargs="+", action="extend", default=[],
        help="any key, as in learner.lr=1e-4; wins over everything else (may be repeated)",
    )  # fmt: skip
    parser.add_argument("--keys", action="store_true", help="list every key of --set and YAML, and stop")
    return parser


def run_command(work: Callable[[], int | None], *, keys: bool = False) -> int:
    """Runs a command, and prints expected errors as one sentence; with `keys` only lists the config's keys.

    Returns:
        The exit code: what `work` returned (0 for None), or that of the error.
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
    """Returns (settings of the flags, settings of `--set`), as nested mappings.

    Raises:
        ConfigError: a `--set` that cannot be read.
    """
    given: dict[str, str | None] = {key: getattr(options, key, None) for key in FLAGS.values()}
    flags = merge(*(nest(key, _flag_value(key, text)) for key, text in given.items() if text is not None))
    return flags, parse_assignments(options.assignments)


def _flag_value(key: str, text: str) -> Any:
    """Reads the value of a flag: for a text key the text itself, for any other as in YAML."""
    annotation = field_of(key).annotation
    kinds = set(get_args(annotation) or (annotation,)) - {NoneType}
    if not kinds <= {int, float, bool}:
        return text
    try:
        return parse_yaml(text)
    except YAMLError:
        return text


def positive(text: str) -> int:
    """Parses a whole number from 1 to `MOST`. Raises argparse.ArgumentTypeError for anything else."""
    return whole_number(text, 1, MOST)


def whole_number(text: str, least: int, most: int) -> int:
    """Parses a whole number from `least` to `most`. Raises argparse.ArgumentTypeError for anything else."""
    found = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(most)) + 2 else least - 1
    if not least <= found <= most:
        raise argparse.ArgumentTypeError(f"must be an integer ≥ {least} and ≤ {most}, got {text!r}")
    return found


def path_option(text: str) -> Path:
    """Parses a path and makes it absolute. Raises argparse.ArgumentTypeError for an invalid one."""
    try:
        return enter_path(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def field_of(key: str) -> FieldInfo:
    """Returns the schema's field for a dotted key. Raises KeyError if there is none."""
    fields = RunConfig.model_fields
    *sections, last = key.split(".")
    for name in sections:
        section = section_of(fields[name].annotation)
        assert section is not None
        fields = section.model_fields
    return fields[last]


def key_table() -> str:
    """Returns every key with its default, range and meaning, one line each."""
    lines = []
    for key, field in _fields(RunConfig):
        default = _SHOWN.get(key, field.get_default(call_default_factory=True))
        if isinstance(default, tuple):
            default = list(default)
        value = "null" if default is None else str(default).lower() if isinstance(default, bool) else default
        value = "" if field.is_required() else repr(value) if value == "" else value
        lines.append(f"{key:34} {value!s:22} {allowed(field):34} {field.description}")
    return "\n".join([f"{'key':34} {'default':22} {'allowed':34} meaning", *lines])


def key_names() -> list[str]:
    """Returns every dotted key, but for those of sections in lists."""
    return [key for key, _ in _fields(RunConfig) if "[" not in key]


def _fields(schema: type[Section], prefix: str = "", known: Collection[str] = ()) -> Iterator[tuple[str, FieldInfo]]:
    """Goes through all keys; sections that may be missing, and those in lists, are keys themselves."""
    for name, field in schema.model_fields.items():
        inner = section_of(field.annotation)
        if name in known:
            continue
        if inner is None or inner is not field.annotation:
            yield f"{prefix}{name}", field
        if inner is not None:
            several = "[…]" if get_origin(field.annotation) is list else ""
            # Of an environment among several only what the one of `env` has not.
            known_there = EnvSection.model_fields if inner is EntrySection else ()
            yield from _fields(inner, f"{prefix}{name}{several}.", known_there)
