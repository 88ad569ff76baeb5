"""Actions of the form `verb[argument]`, such as `search[red shoes]`: how they are read from untrusted text."""

from __future__ import annotations

from collections.abc import Collection

MAX_ARGUMENT = 300
"""Characters of an argument. No search or answer needs more, and what works on it need not be fast."""


def parse_verb(text: str, verbs: Collection[str]) -> tuple[str, str] | None:
    """(verb, argument with spaces made even), or None if `text` is none of `verbs` with something in brackets."""
    text = text.strip()
    if len(text) > MAX_ARGUMENT + 50 or not text.endswith("]"):
        return None
    verb, bracket, rest = text.partition("[")
    argument = " ".join(rest[:-1].split())
    verb = verb.strip().lower()
    if not bracket or verb not in verbs or not argument or len(argument) > MAX_ARGUMENT:
        return None
    return verb, argument
