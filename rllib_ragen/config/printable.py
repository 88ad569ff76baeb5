"""Text from models and tasks, made harmless for a terminal."""

from __future__ import annotations


def safe(text: str) -> str:
    """Returns control and formatting characters as escapes: what a model or a task says must not steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
