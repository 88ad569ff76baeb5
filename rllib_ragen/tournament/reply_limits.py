"""Sampling settings of a tournament's models. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReplyLimits:
    """Sampling settings of every reply of every model."""

    max_reply_tokens: int = 72
    max_context_tokens: int = 1024
    temperature: float = 1.0
    """Sampling temperature; 0: always the likeliest token."""
    top_p: float = 1.0
    top_k: int = 0
