"""The canonical form of a grid: the same for all its rotations and reflections."""

from __future__ import annotations

from collections.abc import Sequence


def square_forms(rows: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the 8 rotations and reflections of `rows` (lines of equal length, one symbol a cell)."""
    columns = ["".join(column) for column in zip(*rows, strict=True)]
    forms = []
    for lines in (rows, columns):
        mirrored = [line[::-1] for line in lines]
        forms += [tuple(lines), tuple(lines[::-1]), tuple(mirrored), tuple(mirrored[::-1])]
    return forms


def canonical_grid(rows: Sequence[str]) -> str:
    """Returns the lexicographically first of the 8 forms of `rows`, as lines."""
    return "\n".join(min(square_forms(rows)))
