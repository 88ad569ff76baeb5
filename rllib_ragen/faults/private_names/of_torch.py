"""torch's private names: process groups beside the default one, shared memory of tensors, permission to use AMX."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed

c10d: Any = torch.distributed
"""torch.distributed, untyped because its stubs lack the parts of process groups."""


def gloo_group(store: Any, rank: int, size: int, host: str, timeout_s: float) -> Any:
    """Joins a process group over TCP that listens on `host` only; blocks until all members have joined."""
    options = c10d.ProcessGroupGloo._Options()
    options._devices = [c10d.ProcessGroupGloo.create_device(hostname=host)]
    options._timeout = timedelta(seconds=timeout_s)
    return c10d.ProcessGroupGloo(store, rank, size, options)


def nccl_group(store: Any, rank: int, size: int, timeout_s: float) -> Any:
    """Joins a process group of GPUs."""
    options = c10d.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=timeout_s)
    return c10d.ProcessGroupNCCL(store, rank, size, options)


def storage_key(tensor: torch.Tensor) -> int:
    """Returns a key of a tensor's memory, equal for tensors that share it. Not the address, which is 0 for empty
    ones.
    """
    return int(tensor.untyped_storage()._cdata)


def ask_for_amx() -> bool:
    """Asks the operating system for permission to use AMX → whether this CPU has AMX and it was granted."""
    return bool(torch.cpu._init_amx())
