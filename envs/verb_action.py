"""Actions of the form `verb[argument]`, such as `search[red shoes]`, parsed from untrusted text."""

from __future__ import annotations

from collections.abc import Collection

MAX_ARGUMENT = 300
"""Most characters of an argument: chosen freely, some fifty words; it bounds the work of everything that reads it."""


def parse_verb(text: str, verbs: Collection[str], longest: int = MAX_ARGUMENT) -> tuple[str, str] | None:
    """Returns (verb, stripped argument), or None if `text` is not one of `verbs` with an argument in brackets.

    Args:
        text: untrusted.
        verbs: the allowed verbs, in lower case; `text` may have any case.
        longest: most characters of an argument.
    """
    text = text.strip()
    if len(text) > longest + 50 or not text.endswith("]"):
        return None
    verb, bracket, rest = text.partition("[")
    verb, argument = verb.strip().lower(), rest[:-1].strip()
    if not bracket or verb not in verbs or not argument or len(argument) > longest:
        return None
    return verb, argument
