"""Prompts of a user's own: a text with placeholders, `{rules}`, each of a name that is known.

No placeholder reaches into what stands for it (no `{state.x}`, no format), and what is filled in is never read again: a
state may hold braces.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from string import Formatter

_Piece = tuple[str, str | None]
"""Text, and the placeholder behind it."""


def check_prompt(text: str, allowed: Sequence[str], needs: Collection[str] = ()) -> None:
    """Checks a prompt's placeholders.

    Args:
        text: the prompt; empty: none is given.
        allowed: names of placeholders.
        needs: one of these must be there; empty: none need be.

    Raises:
        ValueError: one sentence that names the placeholder.
    """
    if not text:
        return
    found = [name for _, name in _pieces(text) if name is not None]
    for name in found:
        if name not in allowed:
            known = ", ".join(f"{{{one}}}" for one in allowed)
            raise ValueError(f"unknown placeholder {{{name}}}; allowed: {known}; a brace that is text is written twice")
    if needs and not set(needs) & set(found):
        raise ValueError(f"must hold {' or '.join(f'{{{one}}}' for one in needs)}, or replies could not depend on it")


def fill_prompt(text: str, parts: Mapping[str, str]) -> str:
    """Returns the prompt with `parts` in place of its placeholders, which `check_prompt` has taken."""
    return "".join(said + ("" if name is None else parts[name]) for said, name in _pieces(text))


def _pieces(text: str) -> list[_Piece]:
    try:
        parsed = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(f"{error}; a brace that is text is written twice, {{{{ or }}}}") from None
    return [
        (said, None if name is None else name + (f"!{change}" if change else "") + (f":{form}" if form else ""))
        for said, name, form, change in parsed
    ]
