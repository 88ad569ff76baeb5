"""Arithmetic expressions from untrusted text: parsed with `ast`, counted and valued exactly, never evaluated."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

_MAX_CHARS = 200
"""Most characters of an expression that is parsed: chosen freely; five numbers with operators take about 40."""
_MAX_DEPTH = 50
"""Deepest nesting that is parsed: chosen freely, far below Python's recursion limit of 1,000."""
_SHAPE = re.compile(r"[( ]*[0-9]+[) ]*(?:[-+*/][( ]*[0-9]+[) ]*)*")
"""Whole numbers with an operator between every two. Only whether parentheses match is left to `ast`, which takes 10
times as long to refuse a text, and a reply may hold 100,000 of them.
"""
_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True)
class Expression:
    """The numbers that an expression uses, and its value."""

    numbers: tuple[int, ...]
    """The numbers in it, sorted."""
    value: Fraction | None
    """Exact value; None if it divides by zero."""


def parse_expression(text: str) -> Expression | None:
    """Parses an arithmetic expression; returns None if `text` is not one. Never raises.

    Accepts whole numbers, + - * / (also × ÷ −) and parentheses, in at most 200 characters and 50 levels. Refuses signs
    in front of a number, powers, // and everything else that Python would read.
    """
    if len(text) > _MAX_CHARS:
        return None
    plain = " ".join(text.replace("×", "*").replace("÷", "/").replace("−", "-").split())
    if not _SHAPE.fullmatch(plain):
        return None
    try:
        tree = ast.parse(plain, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    numbers: list[int] = []
    try:
        value = _value(tree.body, numbers, _MAX_DEPTH)
    except _NotArithmeticError:
        return None
    return Expression(tuple(sorted(numbers)), value)


class _NotArithmeticError(Exception):
    """The syntax tree holds something that is not accepted."""


def _value(node: ast.expr, numbers: list[int], depth: int) -> Fraction | None:
    """Returns the value of `node`, None if it divides by zero; appends the numbers met to `numbers`."""
    if depth == 0:
        raise _NotArithmeticError
    if isinstance(node, ast.Constant) and type(node.value) is int:
        numbers.append(node.value)
        return Fraction(node.value)
    if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATIONS:
        raise _NotArithmeticError
    left, right = (_value(side, numbers, depth - 1) for side in (node.left, node.right))
    if left is None or right is None or (isinstance(node.op, ast.Div) and right == 0):
        return None
    return _OPERATIONS[type(node.op)](left, right)
