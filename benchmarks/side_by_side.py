"""Comparison of ways to do the same work: interleaved repeats, medians, ratios."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Timed:
    """An amount of work and its time."""

    amount: float
    """Amount of work: tokens, parameters, …"""
    wall_s: float
    cpu_s: float
    """CPU seconds of the process, which other work on the machine disturbs less than wall time."""


def timed(work: Callable[[], float]) -> Timed:
    """Runs `work`, which returns its amount, and measures its time."""
    wall, cpu = time.perf_counter(), time.process_time()
    amount = work()
    return Timed(amount, time.perf_counter() - wall, time.process_time() - cpu)


def interleaved(ways: Mapping[str, Callable[[], Timed]], repeats: int) -> dict[str, list[Timed]]:
    """Runs each way once per repeat, in turn, so that slow minutes of the machine affect all; one warm-up each."""
    for way in ways.values():
        way()
    found: dict[str, list[Timed]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            found[name].append(way())
    return found


def summary(found: Mapping[str, list[Timed]], ours: str, opponent: str) -> dict[str, Any]:
    """Returns the median speeds (amount per second) of all ways, and the median over repeats of ours ÷ opponent."""
    row: dict[str, Any] = {"repeats": len(found[ours])}
    for clock in ("wall_s", "cpu_s"):
        speeds = {name: [one.amount / getattr(one, clock) for one in runs] for name, runs in found.items()}
        per = clock.removesuffix("_s")
        row |= {f"{name}_per_{per}_s": round(statistics.median(values), 1) for name, values in speeds.items()}
        ratios = [a / b for a, b in zip(speeds[ours], speeds[opponent], strict=True)]
        row[f"ratio_{per}"] = round(statistics.median(ratios), 3)
        row[f"ratio_{per}_range"] = [round(min(ratios), 3), round(max(ratios), 3)]
    return row


class Worker:
    """Another process, with one thread for arithmetic, that runs functions."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Calls `function(*args)` in the other process."""
        return self._pool.submit(function, *args).result()


@contextmanager
def worker() -> Iterator[Worker]:
    """Starts a process of its own, because engines change their process."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield Worker(pool)
