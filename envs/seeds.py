"""Seeds by use: one stream for each thing that is drawn, no number shared between two of them."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

BLOCK = 2**24
"""Consecutive seeds of one block, the bound of a counter: a run of 10,000 iterations may draw 1,677 groups in each."""


class Stream(IntEnum):
    """The use of a seed. Every use has its own name here; numbers are never reused or changed."""

    TRAINING_INSTANCES = 1
    TRAINING_OUTCOME = 2
    TRAINING_SAMPLING = 3
    EVALUATION_INSTANCES = 4
    EVALUATION_OUTCOME = 5
    EVALUATION_SAMPLING = 6
    TURN_SAMPLING = 7
    CHANCE = 8
    DEMONSTRATION_INSTANCES = 9
    DEMONSTRATION_TEACHER = 10
    GAME_DEMONSTRATION_INSTANCES = 11
    GAME_DEMONSTRATION_OUTCOME = 12
    GAME_DEMONSTRATION_MOVES = 13
    LEAGUE_OPPONENT = 14
    MINIBATCH_ORDER = 15
    PROBE = 16
    TOURNAMENT_INSTANCES = 17
    TOURNAMENT_OUTCOME = 18
    TOURNAMENT_SAMPLING = 19
    SCRIPTED_SEAT = 20
    BASELINE_MOVES = 21
    BASELINE_OUTCOME = 22
    GAME_CHANCE = 23
    SUBSTITUTE_MOVES = 24
    CHAT_SAMPLING = 25
    OFFLINE_ORDER = 26
    CURRICULUM_LEVEL = 27


def seed_of(stream: Stream, *words: int) -> int:
    """Returns 63 bits that depend on the stream and on every word, independent from one combination to the next.

    Raises:
        ValueError: a negative word.
    """
    return int(_sequence(stream, words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def block_of(stream: Stream, *words: int) -> int:
    """Returns the first of BLOCK consecutive seeds, for counters: their seeds are distinct by construction.

    They are consecutive, so that a pool of instances (a seed modulo its size) is used evenly.
    """
    return seed_of(stream, *words) // BLOCK * BLOCK


def generator(stream: Stream, *words: int) -> np.random.Generator:
    """Returns a new generator, seeded by the stream and the words."""
    return np.random.default_rng(_sequence(stream, words))


def _sequence(stream: Stream, words: tuple[int, ...]) -> np.random.SeedSequence:
    """Returns a seed sequence that is different for every stream and words.

    NumPy cuts words into 32 bits and drops zeros at the end, so their lengths and number are part of the entropy.
    """
    entropy: list[int] = [stream, len(words)]
    for word in words:
        entropy += [word.bit_length() // 32 + 1, word]
    return np.random.SeedSequence(entropy)
