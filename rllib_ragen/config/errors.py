"""Configuration errors and "did you mean" hints."""

from __future__ import annotations

import difflib


class ConfigError(ValueError):
    """Invalid input; the message is one sentence that names the key and the allowed values."""


def nearest(name: str, allowed: list[str]) -> str:
    """Returns `did you mean x? allowed: x, y`, or only the second part if no name is near."""
    near = difflib.get_close_matches(name, allowed, n=1)
    return (f"did you mean {near[0]}? " if near else "") + f"allowed: {', '.join(allowed)}"
