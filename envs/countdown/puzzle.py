"""Countdown puzzles: generated solvable, solved by exhaustive search."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np


@dataclass(frozen=True)
class Puzzle:
    """Reach `target` with each of `numbers` (in the order shown) used exactly once."""

    numbers: tuple[int, ...]
    target: int

    @property
    def key(self) -> str:
        """Canonical text: the order in which numbers are shown does not make another puzzle."""
        return f"{' '.join(map(str, sorted(self.numbers)))} = {self.target}"


Term = tuple[Fraction, str]
"""An expression's value and its text, without outer parentheses."""
_NUM_OPERATIONS = 6
"""Number of ways to join two terms: x + y, x * y, x − y, y − x, x / y, y / x (without divisions by zero)."""


def generate_puzzle(rng: np.random.Generator, num_numbers: int, max_number: int, max_target: int) -> Puzzle | None:
    """Returns a puzzle whose target comes from a random expression, or None if its value is no whole number in
    1…max_target.
    """
    numbers = tuple(int(n) for n in rng.integers(1, max_number + 1, num_numbers))
    value = random_expression(rng, numbers)[0]
    if value.denominator != 1 or not 1 <= value <= max_target or int(value) in numbers:
        return None
    return Puzzle(numbers, int(value))


def random_expression(rng: np.random.Generator, numbers: tuple[int, ...]) -> Term:
    """Returns an expression that uses each of `numbers` once, random terms joined by random operations."""
    terms: list[Term] = [(Fraction(n), str(n)) for n in numbers]
    while len(terms) > 1:
        first, second, *rest = (terms[i] for i in rng.permutation(len(terms)))
        results = _joined(first, second)
        terms = [*rest, results[int(rng.integers(len(results)))]]
    return terms[0]


def template_choices(num_numbers: int) -> tuple[int, ...]:
    """Returns [num_numbers − 1] choices at each join of a template: a pair of terms times one of six operations."""
    return tuple(comb(terms, 2) * _NUM_OPERATIONS for terms in range(num_numbers, 1, -1))


def fill_template(numbers: tuple[int, ...], template: tuple[int, ...]) -> Fraction | None:
    """Returns the value of `template` filled with `numbers` in order; None if it is too short or divides by zero."""
    terms: list[Term] = [(Fraction(n), "") for n in numbers]
    for choice in template:
        pair, operation = divmod(choice, _NUM_OPERATIONS)
        i, j = list(combinations(range(len(terms)), 2))[pair]
        results = _joined(terms[i], terms[j])
        if operation >= len(results):
            return None
        terms = [*(term for k, term in enumerate(terms) if k not in (i, j)), results[operation]]
    return terms[0][0] if len(terms) == 1 else None


@lru_cache(maxsize=16_384)
def solve_puzzle(puzzle: Puzzle) -> str | None:
    """Returns an expression that solves it, tokens separated by spaces; None if there is none. The same for the same
    puzzle.
    """
    return _search([(Fraction(n), str(n)) for n in puzzle.numbers], Fraction(puzzle.target))


def _search(terms: list[Term], target: Fraction) -> str | None:
    if len(terms) == 1:
        return terms[0][1] if terms[0][0] == target else None
    for i, j in combinations(range(len(terms)), 2):
        rest = [term for k, term in enumerate(terms) if k not in (i, j)]
        for joined in _joined(terms[i], terms[j]):
            found = _search([*rest, joined], target)
            if found is not None:
                return found
    return None


def _joined(a: Term, b: Term) -> list[Term]:
    """Returns every term that one operation makes of two terms, in a fixed order."""
    (x, left), (y, right) = (a[0], _bracketed(a[1])), (b[0], _bracketed(b[1]))
    results = [(x + y, f"{left} + {right}"), (x * y, f"{left} * {right}")]
    results += [(x - y, f"{left} - {right}"), (y - x, f"{right} - {left}")]
    results += [(x / y, f"{left} / {right}")] if y else []
    results += [(y / x, f"{right} / {left}")] if x else []
    return results


def _bracketed(text: str) -> str:
    return text if text.isdigit() else f"( {text} )"
