"""How a contract is checked clause by clause, and what a broken clause is told as: exception, line and hint."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Generic, TypeVar

MakeT = TypeVar("MakeT")
_OURS = Path(__file__).resolve().parent
_NOT_USERS = sys.stdlib_module_names | {"gymnasium"}
"""Packages that lie between this one and the user's code: the first other one in a traceback is the user's."""
_CHECKS = ("certify.py", "contract.py")


class CertificationError(AssertionError):
    """A clause of the contract is broken; the message names clause and finding."""


@dataclass(frozen=True)
class Clause(Generic[MakeT]):
    """One promise that every environment keeps.

    Attributes:
        check: takes the maker of environments and a number of seeds; raises where the promise is broken.
        hint: what usually mends it.
    """

    check: Callable[[MakeT, int], None]
    hint: str


def require(holds: bool, finding: str) -> None:
    """Raises CertificationError with the finding unless it holds."""
    if not holds:
        raise CertificationError(finding)


def check_clauses(clauses: Mapping[str, Clause[MakeT]], make: MakeT, instances: int) -> list[str]:
    """Checks the clauses in order → their names.

    Raises:
        CertificationError: the first broken clause, the finding and the hint. An exception that the environment itself
            raises is a finding: its type, its text and the line that raised it; it is the cause of the error.
    """
    for name, clause in clauses.items():
        try:
            clause.check(make, instances)
        except Exception as error:
            finding = str(error) if isinstance(error, CertificationError) else describe_exception(error)
            raise CertificationError(f"clause {name!r} is broken: {finding}\nhint: {clause.hint}") from error
    return list(clauses)


def describe_exception(error: BaseException) -> str:
    """Returns type, text and line: `KeyError: 'state' (my_pkg/worlds.py:57, in step)`."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if said else ''}{said}{place_of(error) or place_of(error, ours=True)}"


def place_of(error: BaseException, ours: bool = False) -> str:
    """Returns ` (FILE:LINE, in FUNCTION)`: where the user's code raised the error's first cause, or "".

    The user's package is the first in the traceback that is neither this one nor a library; the line is its last there,
    so that what a library raises is told by the call of it.

    Args:
        error: an exception that was raised.
        ours: look for the last line of this package instead, for environments that ship with it.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, SyntaxError) and error.filename and not ours:
        return f" ({_shown(error.filename)}:{error.lineno})"
    frames = list(traceback.walk_tb(error.__traceback__))
    if ours:
        found = [one for one in frames if _is_ours(one[0]) and Path(one[0].f_code.co_filename).name not in _CHECKS]
    else:
        packages = [(_package(one[0]), one) for one in frames if not _is_ours(one[0])]
        first = next((name for name, _ in packages if name not in _NOT_USERS), None)
        found = [one for name, one in packages if name == first]
    if not found:
        return ""
    frame, line = found[-1]
    return f" ({_shown(frame.f_code.co_filename)}:{line}, in {frame.f_code.co_name})"


def _is_ours(frame: FrameType) -> bool:
    return Path(frame.f_code.co_filename).resolve().is_relative_to(_OURS)


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _shown(file: str) -> str:
    path, here = Path(file).resolve(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def certify(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    make_from: Callable[[str], MakeT],
    check: Callable[[MakeT, int], Iterable[str]],
) -> int:
    """Runs a certifying command → exit code: 0 kept, 1 broken, 2 no such thing.

    Args:
        parser: of the arguments `name` and `--instances`.
        arguments: of the command line; None: the process's.
        make_from: finds the maker that a name means; a ValueError says why it does not.
        check: the clauses that (maker, instances) keeps, as they are found.
    """
    options = parser.parse_args(arguments)
    if options.instances < 2:
        parser.error(f"--instances must be ≥ 2, got {options.instances}")
    try:
        make = make_from(options.name)
    except ValueError as error:
        print(f"{error}{place_of(error)}")
        return 2
    try:
        for clause in check(make, options.instances):
            print(f"ok  {clause}")
    except CertificationError as error:
        print(error)
        return 1
    return 0
