"""Bookkeeping of the hf engine: the state of requests, and the owners of cache rows."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from rllib_ragen.rollout.engines.sampling import SamplingTensors
from rllib_ragen.types import Sampled, Sampling


@dataclass
class Request:
    """A request in progress."""

    key: int
    prompt: list[int]
    sampling: Sampling
    max_new: int
    """Most tokens of the reply: as many as were asked for and fit."""
    uniforms: npt.NDArray[np.float64]
    """[max_new] random numbers from the request's own seed, one per token."""
    row: int = -1
    cached: int = 0
    """Number of leading prompt tokens whose keys the row already holds."""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @classmethod
    def make(cls, key: int, prompt: list[int], sampling: Sampling, room: int) -> Request:
        """Makes a request and draws its random numbers."""
        max_new = min(sampling.max_tokens, room)
        return cls(key, prompt, sampling, max_new, np.random.default_rng(sampling.seed).random(max_new))

    @property
    def num_new(self) -> int:
        """Number of prompt tokens to prefill."""
        return len(self.prompt) - self.cached

    @property
    def length(self) -> int:
        """Number of tokens of prompt and reply so far."""
        return len(self.prompt) + len(self.tokens)

    def push(self, token: int, logprob: float) -> bool:
        """Adds a sampled token → whether the reply has ended."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        return token in self.sampling.stop_token_ids or len(self.tokens) >= self.max_new

    def sampled(self, version: int) -> Sampled:
        """Returns the finished reply."""
        finished = self.tokens[-1] in self.sampling.stop_token_ids
        return Sampled(self.tokens, self.logprobs, finished, version, self.cached)


def sampling_tensors(batch: Sequence[Request], device: torch.device) -> SamplingTensors:
    """Returns the sampling settings of the next token of each request."""
    settings = [request.sampling for request in batch]
    columns = (
        torch.tensor([s.temperature for s in settings], dtype=torch.float32),
        torch.tensor([s.top_p for s in settings], dtype=torch.float32),
        torch.tensor([s.top_k for s in settings], dtype=torch.int64),
        torch.tensor([r.uniforms[len(r.tokens)] for r in batch], dtype=torch.float64),
    )
    return SamplingTensors(*(column.to(device) for column in columns))


@dataclass
class _Owner:
    row: int
    token_ids: list[int] = field(default_factory=list)
    """Tokens whose keys the row holds."""


class Rows:
    """The episodes that own cache rows. Idle ones keep theirs until another episode needs it (oldest first)."""

    def __init__(self, count: int) -> None:
        self._free = list(range(count))
        self._owners: dict[int, _Owner] = {}

    def assign(self, request: Request, busy: Collection[int]) -> bool:
        """Assigns a row to `request` and sets its `cached` → False if all rows are busy."""
        owner = self._owners.pop(request.key, None) or self._new_owner(busy)
        if owner is None:
            return False
        self._owners[request.key] = owner
        request.row = owner.row
        # The last prompt token is always computed: its logits are wanted.
        request.cached = min(common_prefix(owner.token_ids, request.prompt), len(request.prompt) - 1)
        return True

    def prefilled(self, request: Request) -> None:
        """Records that the row of `request` holds its whole prompt."""
        self._owners[request.key].token_ids = request.prompt

    def computed(self) -> list[tuple[list[int], int]]:
        """Returns (tokens with keys in the row, row) of every row that is not empty."""
        return [(owner.token_ids, owner.row) for owner in self._owners.values() if owner.token_ids]

    def keep(self, request: Request) -> None:
        """Records a complete reply: its row holds the keys of all tokens but the last, which was never fed."""
        owner = self._owners.pop(request.key)
        owner.token_ids = request.prompt + request.tokens[:-1]
        self._owners[request.key] = owner

    def release(self, key: int) -> None:
        """Frees the row of `key`, if it has one."""
        owner = self._owners.pop(key, None)
        if owner is not None:
            heapq.heappush(self._free, owner.row)

    def release_all(self) -> None:
        """Frees every row."""
        for key in list(self._owners):
            self.release(key)

    def _new_owner(self, busy: Collection[int]) -> _Owner | None:
        if not self._free:
            idle = next((key for key in self._owners if key not in busy), None)
            if idle is None:
                return None
            self.release(idle)
        return _Owner(heapq.heappop(self._free))


def common_prefix(left: list[int], right: list[int]) -> int:
    """Returns the length of the longest common prefix."""
    limit = min(len(left), len(right))
    if left[:limit] == right[:limit]:
        return limit
    return next(i for i in range(limit) if left[i] != right[i])
