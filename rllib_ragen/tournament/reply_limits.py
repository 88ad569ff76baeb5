"""How models' replies are sampled in a tournament. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReplyLimits:
    """Of every reply of every model."""

    max_reply_tokens: int = 72
    max_context_tokens: int = 1024
    temperature: float = 1.0
    """0: the likeliest token always."""
    top_p: float = 1.0
    top_k: int = 0
