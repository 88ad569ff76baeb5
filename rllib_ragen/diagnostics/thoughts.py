"""The tokens of a reply's thought, and the choice of (prompt, thought) pairs for a measurement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rllib_ragen.types import IntArray, Trajectory

OPEN, CLOSE = "<think>", "</think>"
Decode = Callable[[Sequence[int]], str]
"""A function that returns the text of a reply's first tokens, after the reply prefix in the prompt."""


@dataclass
class ThoughtSample:
    """N thoughts and the M distinct prompts that they were sampled after."""

    prompts: list[IntArray] = field(default_factory=list)
    """M token sequences, each up to and including `<think>`."""
    thoughts: list[IntArray] = field(default_factory=list)
    """N token sequences sampled between the tags; at least one token each."""
    own: list[int] = field(default_factory=list)
    """Index of each thought's prompt, N in all."""


def first_turns(trajectories: Sequence[Trajectory], count: int, decode: Decode, seed: Sequence[int]) -> ThoughtSample:
    """Draws up to `count` first turns with a thought, from as many groups as possible."""
    rng = np.random.default_rng(seed)
    seen: dict[str, int] = {}
    ranked = []
    for index in rng.permutation(len(trajectories)):
        trajectory = trajectories[index]
        if trajectory.turns:
            rank = seen[trajectory.group_id] = seen.get(trajectory.group_id, -1) + 1
            ranked.append((rank, trajectory))
    return _collect(((t, 0) for _, t in sorted(ranked, key=lambda pair: pair[0])), count, decode)


def any_turns(trajectories: Sequence[Trajectory], count: int, decode: Decode, seed: Sequence[int]) -> ThoughtSample:
    """Draws up to `count` turns with a thought, uniformly from all turns of all trajectories."""
    rng = np.random.default_rng(seed)
    turns = [(trajectory, k) for trajectory in trajectories for k in range(len(trajectory.turns))]
    return _collect((turns[i] for i in rng.permutation(len(turns))), count, decode)


def thought_span(reply_ids: Sequence[int], decode: Decode) -> tuple[int, int] | None:
    """Returns the range [start, end) of the thought's tokens; None if the reply lacks one of the tags.

    A token with a part of a tag belongs to the tag. The range is found by decoding prefixes of the reply, so it does
    not matter how a tokenizer splits the tags.
    """
    ids = list(reply_ids)
    text = decode(ids)
    opened = text.find(OPEN)
    closed = text.find(CLOSE, opened + len(OPEN)) if opened >= 0 else -1
    if closed < 0:
        return None
    start = _first(len(ids), lambda k: len(decode(ids[:k])) >= opened + len(OPEN))
    end = _first(len(ids), lambda k: len(decode(ids[:k])) > closed) - 1
    return start, max(start, end)


def _collect(turns: Iterable[tuple[Trajectory, int]], count: int, decode: Decode) -> ThoughtSample:
    sample = ThoughtSample()
    columns: dict[bytes, int] = {}
    for trajectory, k in turns:
        if len(sample.thoughts) == count:
            break
        reply = trajectory.turns[k].reply_ids
        start, end = thought_span(reply.tolist(), decode) or (0, 0)
        if start == end:
            continue
        before = [ids for turn in trajectory.turns[:k] for ids in (turn.prompt_ids, turn.reply_ids)]
        prompt = np.concatenate([*before, trajectory.turns[k].prompt_ids, reply[:start]])
        column = columns.setdefault(prompt.tobytes(), len(columns))
        if column == len(sample.prompts):
            sample.prompts.append(prompt)
        sample.thoughts.append(reply[start:end])
        sample.own.append(column)
    return sample


def _first(limit: int, holds: Callable[[int], bool]) -> int:
    """Returns the smallest k ≤ limit with `holds(k)`, by bisection; `holds` is monotone."""
    low, high = 0, limit
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
