"""What a rollout engine is: requests go in by key, finished replies come out, weights are replaced in between."""

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
    """One request that could not be answered; the others go on."""

    error: str
    """One sentence for the trajectory's `error`."""


class EngineDead(RuntimeError):
    """The engine as a whole is gone: nothing in flight will finish, and it must be built anew."""


class Engine(ABC):
    """Samples replies for many episodes at once.

    A key names an episode. Each request brings the episode's whole context; the engine may reuse what it has cached
    for that key or prefix. Nothing about the result may depend on what is cached or on the other requests.
    """

    version: int = 0
    """Number of updates of the weights that sample now."""

    @abstractmethod
    def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        """Submits one request for episode `key`. `prompt_ids` is the whole context so far.

        A request that cannot be served (context too long, unknown token) comes back from `poll` as EngineFailure.

        Raises:
            ValueError: `key` already has a request in flight.
        """

    @abstractmethod
    def poll(self) -> list[tuple[int, Sampled | EngineFailure]]:
        """Works until at least one request is finished and returns all finished; empty only if none is in flight.

        Raises:
            EngineDead: no request can ever finish.
        """

    @abstractmethod
    def forget(self, key: int) -> None:
        """The episode is over: frees what is cached for it, and drops its request if one is in flight."""

    @abstractmethod
    def load_weights(self, named: Mapping[str, torch.Tensor], version: int) -> None:
        """Replaces the weights by `named` (state-dict names of the transformers model) and drops every cache.

        Tied weights may be given once or twice. Requests in flight are not allowed.

        Raises:
            ValueError: a missing or unknown name, or a wrong shape; nothing has been changed then.
            RuntimeError: requests are in flight.
        """

    @abstractmethod
    def reset(self) -> None:
        """Drops all requests and caches; weights and version stay."""

    def close(self) -> None:
        """Frees memory and processes. The engine cannot be used afterwards."""


def check_weights(given: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Size], optional: set[str]) -> None:
    """Checks names and shapes of an update before anything is touched.

    Args:
        given: the update.
        expected: shape of every parameter and persistent buffer, by name.
        optional: names that may be missing, because they are tied to another one.

    Raises:
        ValueError: naming the first offender.
    """
    unknown = sorted(set(given) - set(expected))
    missing = sorted(set(expected) - set(given) - optional)
    if unknown:
        raise ValueError(f"weights hold {unknown[0]!r}, which the model has not (and {len(unknown) - 1} more)")
    if missing:
        raise ValueError(f"weights lack {missing[0]!r} (and {len(missing) - 1} more)")
    for name, tensor in given.items():
        if tensor.shape != expected[name]:
            shapes = f"{list(tensor.shape)}, the model wants {list(expected[name])}"
            raise ValueError(f"weight {name!r} has shape {shapes}")
