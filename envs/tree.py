"""The type of what is read from, or written to, JSON, YAML and other libraries."""

from __future__ import annotations

from typing import Any

Tree = dict[str, Any]
"""Nested mapping with names as keys: a config, a state, a row, an info. Who reads a key knows what is there."""
