"""Train, validation and test instances, split by content.

An instance belongs to the split that a hash of its canonical text names, so the sets are disjoint by
construction: no seed, process or run can put one instance into two of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TypeVar

import numpy as np

from ragen_envs.seeds import Stream, block_of

T = TypeVar("T")
_MAX_DRAWS = 2_000
"""Most draws for an instance of a split: a split has a quarter of all or more, and 0.75²⁰⁰⁰ is 1e-250."""
_MAX_REPEATS = 1_000
"""Numbers in a row without a new instance after which a split counts as complete: an instance with 1 % of the draws
is then missed with a chance of 0.99¹⁰⁰⁰ = 4e-5."""


class Split(StrEnum):
    """A set of instances."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"

    @classmethod
    def parse(cls, name: str) -> Split:
        """Returns the split called `name`. Raises ValueError naming the allowed ones."""
        try:
            return cls(name)
        except ValueError:
            raise ValueError(f"unknown split {name!r}; allowed: {', '.join(cls)}") from None


def split_of(instance_key: str) -> Split:
    """Returns the split of an instance: by a hash of its key, half train, a quarter validate and a quarter test."""
    first_byte = hashlib.sha256(instance_key.encode()).digest()[0]
    if first_byte < 128:
        return Split.TRAIN
    return Split.VAL if first_byte < 192 else Split.TEST


def draw_instance(
    seed: int, split: Split, generate: Callable[[np.random.Generator], T | None], key: Callable[[T], str]
) -> T:
    """Draws instances from the stream of `seed` until one is in `split`; the same in every process and run.

    Args:
        seed: instance seed, ≥ 0.
        split: the split wanted.
        generate: draws one instance from a generator; None if the draw was unfit.
        key: returns the canonical text of an instance.

    Raises:
        ValueError: a negative seed, or no fitting instance in 2,000 draws (settings too narrow).
    """
    if seed < 0:
        raise ValueError(f"instance seed must be ≥ 0, got {seed}")
    rng = np.random.default_rng(seed)
    for _ in range(_MAX_DRAWS):
        instance = generate(rng)
        if instance is not None and split_of(key(instance)) is split:
            return instance
    raise ValueError(f"no {split} instance in {_MAX_DRAWS} draws for seed {seed}: the task's settings are too narrow")


def instance_seed(split: str, number: int) -> int:
    """Returns the seed of instance `number` of a split, for everything but training: evaluation, baselines, play.

    Raises:
        ValueError: an unknown split.
    """
    return block_of(Stream.EVALUATION_INSTANCES, list(Split).index(Split.parse(split))) + number


def distinct_numbers(key_of: Callable[[int], str]) -> Iterator[int]:
    """Yields the numbers 0, 1, 2 … that name new instances, until there seem to be no more.

    Args:
        key_of: returns the key of an instance of one split by its number.
    """
    found: set[str] = set()
    number, repeats = 0, 0
    while repeats < _MAX_REPEATS:
        key = key_of(number)
        if key in found:
            repeats += 1
        else:
            found.add(key)
            repeats = 0
            yield number
        number += 1
