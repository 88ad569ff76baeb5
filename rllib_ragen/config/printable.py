"""Text for a terminal: untrusted text made harmless, and commands that can be pasted into a shell."""

from __future__ import annotations

import shlex


def safe(text: str) -> str:
    """Returns `text` with control and formatting characters escaped: a model's or task's text must not control the
    terminal.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def word(text: object) -> str:
    """Quotes one word of a shell command if necessary; characters that `safe` would change stand in bash's `$'…'`."""
    plain = str(text)
    if safe(plain) == plain:
        return shlex.quote(plain)
    quoted = plain.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{safe(quoted)}'"


def command(module: str, *words: object) -> str:
    """Returns the command `python -m rllib_ragen.<module> …`, quoted for a shell."""
    return " ".join(["python", "-m", f"rllib_ragen.{module}", *map(word, words)])
