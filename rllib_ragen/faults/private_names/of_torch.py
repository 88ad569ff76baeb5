"""torch's: process groups beside the default one, what tensors share memory, and leave to use AMX."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed

c10d: Any = torch.distributed
"""Untyped: the stubs lack what process groups are made of."""


def gloo_group(store: Any, rank: int, size: int, host: str, timeout_s: float) -> Any:
    """Joins a process group over TCP that listens on `host` alone; blocks until all members have come."""
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
    """Names a tensor's memory: equal where two share it. Not its address: that of an empty one is 0."""
    return int(tensor.untyped_storage()._cdata)


def ask_for_amx() -> bool:
    """Asks the operating system for leave to use AMX instructions; whether this CPU has them and it was given."""
    return bool(torch.cpu._init_amx())
