"""Shared prefixes of prompts, computed once: those of a group's members, and the system message of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rllib_ragen.rollout.engines.requests import Request, common_prefix

_WORTHWHILE = 16
"""Least number of shared tokens that is copied, or waited for by one pass: chosen freely."""


@dataclass(frozen=True)
class Copy:
    """The first `length` prompt tokens of `request` are already in cache row `source`."""

    request: Request
    source: int
    length: int


@dataclass
class Plan:
    """The next prefill pass."""

    copies: list[Copy] = field(default_factory=list)
    """Copies between rows before the pass."""
    ready: list[Request] = field(default_factory=list)
    """Requests of this pass."""
    later: list[Request] = field(default_factory=list)
    """Requests for a later pass: they share more with one of this pass than with any row."""


def share_prefixes(requests: Sequence[Request], rows: Sequence[tuple[list[int], int]]) -> Plan:
    """Plans one prefill pass.

    Args:
        requests: requests to prefill. Those with cached tokens of their own (later turns) are always ready.
        rows: (tokens, row) of the cache.

    Returns:
        A plan with at least one ready request.
    """
    plan = Plan(ready=[request for request in requests if request.cached])
    fresh = [request for request in requests if not request.cached]
    # In lexicographic order, what shares most with a prompt stands right before or after it.
    order = sorted([*((r.prompt, -1, r) for r in fresh), *((ids, row, None) for ids, row in rows)], key=_sort_key)
    best: dict[int, tuple[int, int]] = {}
    for entries in (order, order[::-1]):
        donor: tuple[list[int], int] | None = None
        for token_ids, row, request in entries:
            if request is None:
                donor = (token_ids, row)
            elif donor is not None:
                best[request.key] = max(best.get(request.key, (0, -1)), (common_prefix(donor[0], token_ids), donor[1]))
    before: Request | None = None
    for _, _, request in order:
        if request is None:
            continue
        usable, source = best.get(request.key, (0, -1))
        usable = min(usable, request.num_new - 1)
        shared = 0 if before is None else min(common_prefix(before.prompt, request.prompt), request.num_new - 1)
        if shared >= usable + _WORTHWHILE:
            plan.later.append(request)
        else:
            plan.ready.append(request)
            if usable >= _WORTHWHILE:
                plan.copies.append(Copy(request, source, usable))
        before = request
    return plan


def _sort_key(entry: tuple[list[int], int, Request | None]) -> tuple[list[int], int]:
    return entry[0], entry[1]
