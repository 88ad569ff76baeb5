"""The hf engine's bookkeeping, by hand: what a request still needs, and whose keys a row of the cache holds."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
import torch

from rllib_ragen.rollout.engines.requests import Request, Rows, common_prefix, sampling_tensors
from rllib_ragen.types import Sampled, Sampling

STOP = 2


def request(key: int, prompt: list[int], max_tokens: int = 8, room: int = 100) -> Request:
    return Request.make(key, prompt, Sampling(max_tokens, (STOP,), seed=key), room)


def taken(rows: Rows, key: int, prompt: list[int], busy: Collection[int] = ()) -> tuple[int, int]:
    """(row, cached tokens) of a request whose prompt is then computed; (−1, 0) if there is no row for it."""
    asked = request(key, prompt)
    if rows.assign(asked, busy) is False:
        return asked.row, asked.cached
    rows.prefilled(asked)
    return asked.row, asked.cached


@pytest.mark.parametrize(("max_tokens", "room", "most"), [(8, 100, 8), (8, 5, 5), (8, 8, 8)])
def test_a_reply_has_as_many_tokens_as_were_asked_for_and_fit(max_tokens: int, room: int, most: int) -> None:
    made = request(3, [5, 6], max_tokens, room)
    assert made.max_new == most
    assert made.uniforms.tolist() == np.random.default_rng(3).random(most).tolist()
    assert [made.push(7, -0.5) for _ in range(most)] == [False] * (most - 1) + [True]
    assert made.sampled(version=4) == Sampled([7] * most, [-0.5] * most, False, 4)


def test_a_stop_token_ends_a_reply_and_is_its_last_token() -> None:
    made = request(0, [5, 6])
    assert not made.push(7, -1.0)
    assert made.push(STOP, -2.0)
    assert made.sampled(version=1) == Sampled([7, STOP], [-1.0, -2.0], True, 1)


def test_lengths_count_prompt_and_reply_and_what_is_not_cached() -> None:
    made = request(0, [5, 6, 7])
    assert (made.num_new, made.length) == (3, 3)
    made.cached = 2
    made.push(9, 0.0)
    assert (made.num_new, made.length) == (1, 4)
    assert made.sampled(version=0).cached_tokens == 2


def test_each_row_of_a_batch_has_its_own_settings_and_its_next_number() -> None:
    one = Request.make(0, [5], Sampling(4, (), temperature=0.5, top_p=0.9, top_k=7, seed=1), room=9)
    other = Request.make(1, [5], Sampling(4, (), temperature=2.0, top_p=0.1, top_k=3, seed=2), room=9)
    other.push(6, 0.0)
    found = sampling_tensors([one, other], torch.device("cpu"))
    assert found.temperature.tolist() == [0.5, 2.0]
    assert found.top_p.tolist() == pytest.approx([0.9, 0.1])
    assert found.top_k.tolist() == [7, 3]
    assert found.uniforms.tolist() == [one.uniforms[0], other.uniforms[1]]
    dtypes = [found.temperature.dtype, found.top_p.dtype, found.top_k.dtype, found.uniforms.dtype]
    assert dtypes == [torch.float32, torch.float32, torch.int64, torch.float64]


def test_an_episode_keeps_its_row_and_what_is_cached_there() -> None:
    rows = Rows(3)
    assert taken(rows, 10, [5, 6, 7]) == (0, 0)
    assert taken(rows, 11, [5, 6, 7]) == (1, 0), "another episode's row does not count"
    assert taken(rows, 10, [5, 6, 7, 8, 9]) == (0, 3)
    assert taken(rows, 10, [5, 6, 4]) == (0, 2), "as far as the prompts are the same"


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    rows = Rows(1)
    taken(rows, 0, [5, 6, 7])
    assert taken(rows, 0, [5, 6, 7]) == (0, 2)
    assert taken(rows, 0, [5]) == (0, 0)


def test_a_complete_reply_is_cached_but_for_its_last_token() -> None:
    rows, asked = Rows(1), request(0, [5, 6])
    rows.assign(asked, ())
    for token in (7, 8, 9):
        asked.push(token, 0.0)
    rows.keep(asked)
    assert rows.computed() == [([5, 6, 7, 8], 0)]
    assert taken(rows, 0, [5, 6, 7, 8, 9, 10]) == (0, 4)


def test_rows_that_hold_nothing_yet_are_not_computed() -> None:
    rows, first, second = Rows(2), request(0, [5, 6]), request(1, [5, 9])
    rows.assign(first, ())
    rows.assign(second, ())
    assert rows.computed() == []
    rows.prefilled(second)
    assert rows.computed() == [([5, 9], 1)]


def test_the_episode_that_has_been_idle_longest_gives_up_its_row() -> None:
    rows = Rows(2)
    taken(rows, 10, [5, 6])
    taken(rows, 11, [5, 7])
    assert taken(rows, 12, [5, 8], busy={10}) == (1, 0), "10 is busy"
    assert taken(rows, 13, [5, 8], busy={10, 12}) == (-1, 0), "nobody is idle"
    assert taken(rows, 13, [5, 8]) == (0, 0), "10 came before 12"
    assert taken(rows, 10, [5, 6]) == (1, 0), "it has lost what was cached, and 12 is the oldest now"


@pytest.mark.parametrize("how", ["asks again", "replies"])
def test_an_episode_that_goes_on_becomes_the_newest(how: str) -> None:
    rows, first = Rows(2), request(10, [5, 6])
    rows.assign(first, ())
    taken(rows, 11, [5, 7])
    if how == "asks again":
        taken(rows, 10, [5, 6, 8])
    else:
        first.push(8, 0.0)
        rows.keep(first)
    assert taken(rows, 12, [5, 9]) == (1, 0)


def test_the_lowest_free_row_is_taken_first() -> None:
    rows = Rows(3)
    for key in (10, 11, 12):
        taken(rows, key, [5, 6])
    for key in (12, 10, 11):
        rows.release(key)
    assert [taken(rows, key, [5, 6])[0] for key in (20, 21, 22)] == [0, 1, 2]


def test_releasing_frees_a_row_once_and_an_unknown_episode_has_none() -> None:
    rows = Rows(1)
    taken(rows, 10, [5, 6])
    rows.release(10)
    rows.release(10)
    rows.release(99)
    assert taken(rows, 11, [5, 6]) == (0, 0)
    assert taken(rows, 12, [5, 6], busy={11}) == (-1, 0), "there is one row, not two"


def test_all_rows_are_free_and_empty_after_a_reset() -> None:
    rows = Rows(2)
    for key in (10, 11):
        taken(rows, key, [5, 6])
    rows.release_all()
    assert rows.computed() == []
    assert [taken(rows, key, [5, 6]) for key in (11, 10)] == [(0, 0), (1, 0)]


@pytest.mark.parametrize(
    ("left", "right", "length"),
    [([], [], 0), ([1], [], 0), ([1, 2], [1, 2], 2), ([1, 2, 3], [1, 2], 2), ([1, 2], [1, 3], 1), ([2, 1], [1, 1], 0)],
)
def test_the_common_prefix_ends_at_the_first_difference(left: list[int], right: list[int], length: int) -> None:
    assert common_prefix(left, right) == common_prefix(right, left) == length
