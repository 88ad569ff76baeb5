"""The progress of every process of a run: a process that works beats, one that waits for it reads its heartbeat.

An actor that hangs does not answer, so its beats go to Ray's key-value store, where others see them: at most one every
2 s, of some 30 bytes, under the actor's id.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import NamedTuple

_KEY = "rllib_ragen/faults/heartbeat/"
_EVERY_S = 2.0
"""Least seconds between two heartbeats in the store: chosen freely, small beside timeouts of minutes."""


class Heartbeat(NamedTuple):
    """The last heartbeat of a process."""

    beats: int = 0
    """Number of heartbeats so far, which grows while the process works."""
    done: int = 0
    total: int = 0
    """Amount of work of the current call, in the call's own units; `done` is the finished part."""


class _Own:
    pulse = Heartbeat()
    key: str | None = None
    """Key in the store; None: not known yet; empty: this process is not an actor."""
    told = 0.0


def beat(done: int | None = None, total: int | None = None) -> None:
    """Reports that this process has made progress; `done` of `total` units of its call, if given."""
    last = _Own.pulse
    _Own.pulse = Heartbeat(last.beats + 1, last.done if done is None else done, last.total if total is None else total)
    now = time.monotonic()
    if now - _Own.told >= _EVERY_S:
        _Own.told = now
        _tell()


def own() -> Heartbeat:
    """Returns this process's heartbeat."""
    return _Own.pulse


def heartbeat_of(actor_id: str) -> Heartbeat:
    """Returns the heartbeat of an actor, by its id in hex; Heartbeat() if there is none to read."""
    from rllib_ragen.faults.private_names.of_ray import read_note

    found = read_note(_KEY + actor_id)
    return Heartbeat(*json.loads(found)) if found else Heartbeat()


def resident_gib() -> float:
    """Returns this process's resident memory, GiB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**30


def _tell() -> None:
    if _Own.key == "" or "ray" not in sys.modules:
        return
    import ray

    from rllib_ragen.faults.private_names.of_ray import write_note

    if not ray.is_initialized():
        return
    if _Own.key is None:
        actor_id = ray.get_runtime_context().get_actor_id()
        _Own.key = _KEY + actor_id if actor_id else ""
    if _Own.key:
        write_note(_Own.key, json.dumps(_Own.pulse))
