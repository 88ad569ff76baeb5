"""Peak of live tensor memory, counted from the operations themselves: no clock, no allocator statistics."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from rllib_ragen.faults.private_names.of_torch import storage_key


class PeakMemory(TorchDispatchMode):
    """A context that counts the bytes of living tensor storages made in it: their peak, and the largest one.

    Memory that an operation uses only internally is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = self.largest = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {_key(tensor) for tensor in tree_iter((args, kwargs)) if isinstance(tensor, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor) and _key(tensor) not in before | self._known:
                self._count(tensor)
        return result

    def _count(self, tensor: torch.Tensor) -> None:
        storage, key = tensor.untyped_storage(), _key(tensor)
        size = storage.nbytes()
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        self.largest = max(self.largest, size)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def _key(tensor: torch.Tensor) -> int:
    return storage_key(tensor)
