"""Text for a terminal: what models and tasks say made harmless, and commands that can be pasted back."""

from __future__ import annotations

import shlex


def safe(text: str) -> str:
    """Returns control and formatting characters as escapes: what a model or a task says must not steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def word(text: object) -> str:
    """Returns one word of a shell command, quoted if need be; what `safe` would change stands in bash's `$'…'`."""
    plain = str(text)
    if safe(plain) == plain:
        return shlex.quote(plain)
    quoted = plain.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{safe(quoted)}'"


def command(module: str, *words: object) -> str:
    """Returns `python -m rllib_ragen.<module> …`, as it can be pasted into a shell."""
    return " ".join(["python", "-m", f"rllib_ragen.{module}", *map(word, words)])
