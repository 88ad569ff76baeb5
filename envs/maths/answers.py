"""Comparison of answers: numbers by value, anything else by its text. Linear, and nothing is evaluated."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

_NUMBER = re.compile(r"([+-]?)(\d+(?:,\d{3})*|\d*)(\.\d+)?", re.ASCII)
_LATEX_FRACTION = re.compile(r"([+-]?)\\[dt]?frac\{?(\d+)\}?\{?(\d+)\}?", re.ASCII)
_BOXED = re.compile(r"\\boxed\{(.*)\}", re.DOTALL)
_DROPPED = re.compile(r"\\left|\\right|\\[,;! ]|\$|\\text\{\s*\}")
_MAX_DIGITS = 1_000
"""Most characters of an answer that is read as a number: chosen freely, because int() takes quadratic time."""


def same_answer(one: str, other: str) -> bool:
    """Returns whether both are the same number, or the same text apart from case, dollar signs and spacing.

    A number is written out: 1,250, −3.50, 3/4, \\frac{3}{4}. An expression such as 3 + 4 is no number: repeating the
        problem does not solve it.
    """
    ours, theirs = _plain(one), _plain(other)
    if ours == theirs:
        return bool(ours)
    value = number_of(ours)
    return value is not None and value == number_of(theirs)


def number_of(text: str) -> Fraction | None:
    """Returns the value of a written-out number; None for anything else."""
    if len(text) > _MAX_DIGITS:
        return None
    text = text.replace("−", "-").rstrip(".")
    latex = _LATEX_FRACTION.fullmatch(text)
    if latex is not None:
        text = f"{latex[1]}{latex[2]}/{latex[3]}"
    above, slash, below = text.partition("/")
    number, divisor = _decimal(above), _decimal(below) if slash else Fraction(1)
    return None if number is None or not divisor else number / divisor


def _decimal(text: str) -> Fraction | None:
    match = _NUMBER.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        return None
    return Fraction(f"{match[1]}{match[2].replace(',', '') or '0'}{match[3] or ''}")


def _plain(answer: str) -> str:
    boxed = _BOXED.fullmatch(answer.strip())
    words = _DROPPED.sub("", boxed[1] if boxed else answer).lower().split()
    # A space between letters or digits parts what it stands between; any other does not matter.
    spaced = [
        f" {word}" if before[-1:].isalnum() and word[0].isalnum() else word for before, word in pairwise(["", *words])
    ]
    return "".join(spaced)
