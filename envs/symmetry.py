"""The canonical form of a grid: the same for everything that a turn or a mirror makes of it."""

from __future__ import annotations

from collections.abc import Sequence


def square_forms(rows: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the 8 grids that turning and mirroring make of `rows` (equally long lines of one symbol a cell)."""
    columns = ["".join(column) for column in zip(*rows, strict=True)]
    forms = []
    for lines in (rows, columns):
        mirrored = [line[::-1] for line in lines]
        forms += [tuple(lines), tuple(lines[::-1]), tuple(mirrored), tuple(mirrored[::-1])]
    return forms


def canonical_grid(rows: Sequence[str]) -> str:
    """Returns the first of the 8 forms of `rows` in the order of text, as lines."""
    return "\n".join(min(square_forms(rows)))
