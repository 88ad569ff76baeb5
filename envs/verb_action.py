"""Actions of the form `verb[argument]`, such as `search[red shoes]`: how they are read from untrusted text."""

from __future__ import annotations

from collections.abc import Collection

MAX_ARGUMENT = 300
"""Characters of an argument. No search or answer needs more, and what works on it need not be fast."""


def parse_verb(text: str, verbs: Collection[str], longest: int = MAX_ARGUMENT) -> tuple[str, str] | None:
    """Returns (verb, stripped argument), or None if `text` is none of `verbs` with something in brackets.

    Args:
        text: untrusted.
        verbs: what may stand in front of the bracket, lower-case; any case is taken.
        longest: characters of an argument.
    """
    text = text.strip()
    if len(text) > longest + 50 or not text.endswith("]"):
        return None
    verb, bracket, rest = text.partition("[")
    verb, argument = verb.strip().lower(), rest[:-1].strip()
    if not bracket or verb not in verbs or not argument or len(argument) > longest:
        return None
    return verb, argument
