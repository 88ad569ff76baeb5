"""The interface of rollout engines: requests by key in, finished replies out, and weights replaced in between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rllib_ragen.types import Sampled, Sampling

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class EngineFailure:
    """A request that failed; the others go on."""

    error: str
    """One sentence for the trajectory's `error`."""


class EngineDead(RuntimeError):
    """The whole engine is gone: nothing in flight will finish, and it must be built anew."""


BUSY = "weights cannot change while requests are in flight: reset() or poll() first"
"""Message of the RuntimeError of `load_weights` while requests are in flight."""


class Engine(ABC):
    """Samples replies for many episodes at once.

    A key names an episode. Each request has the episode's whole context; the engine may reuse its cache for that key or
    prefix. The result must not depend on the cache or on other requests.
    """

    max_context: int
    """Most tokens of prompt and reply of one episode."""
    vocab_size: int
    version: int = 0
    """Policy version of the current weights: their number of updates."""

    @abstractmethod
    def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        """Submits one request for episode `key`. `prompt_ids` is the whole context so far.

        A request that cannot be served (context too long, unknown token) is returned by `poll` as EngineFailure.

        Raises:
            ValueError: `key` already has a request in flight.
        """

    @abstractmethod
    def poll(self) -> list[tuple[int, Sampled | EngineFailure]]:
        """Works until at least one request is finished → all finished ones; empty only if none is in flight.

        Raises:
            EngineDead: no request can ever finish.
        """

    @abstractmethod
    def forget(self, key: int) -> None:
        """Ends an episode: frees its cache, and drops its request if one is in flight."""

    @abstractmethod
    def load_weights(self, named: Mapping[str, torch.Tensor], version: int) -> None:
        """Replaces the weights by `named` (state-dict names of the transformers model) and drops every cache.

        Tied weights may be given once or twice. Requests in flight are not allowed.

        Raises:
            ValueError: a missing or unknown name, or a wrong shape; nothing has been changed then.
            RuntimeError: requests are in flight.
        """

    def prompt_error(self, prompt: Sequence[int], sampling: Sampling) -> str:
        """Returns why a request cannot be served; empty if it can."""
        if not prompt or min(prompt) < 0 or max(prompt) >= self.vocab_size:
            return f"the prompt is empty or holds a token id outside 0…{self.vocab_size - 1}"
        if min(self.max_context - len(prompt), sampling.max_tokens) < 1:
            return f"no room for a reply: prompt {len(prompt)}, max_context {self.max_context} tokens"
        return ""

    def sleep(self) -> None:  # noqa: B027 - optional: most engines have nothing to free
        """Frees device memory between samplings; no request may be in flight. `wake` or `load_weights` ends it."""

    def wake(self) -> None:  # noqa: B027
        """Makes a sleeping engine ready to sample; its cache is empty then."""

    @abstractmethod
    def reset(self) -> None:
        """Drops all requests and caches; weights and version stay."""

    @abstractmethod
    def close(self) -> None:
        """Frees memory and processes. The engine cannot be used afterwards."""
