"""The channel for weights from a learner to the engines' processes: a process group beside torch's default one.

torch's default group belongs to DDP in a learner and to tensor parallelism in vLLM, so this one is made of its parts: a
TCP store where the members meet, and a gloo (CPU) or NCCL (GPU) group over it. Rank 0 sends, all others receive.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed

from ragen_envs.tree import Tree
from rllib_ragen.faults.private_names.of_torch import gloo_group, nccl_group

c10d: Any = torch.distributed
"""torch.distributed, untyped because its stubs lack the parts of process groups."""
Backend = Literal["gloo", "nccl"]
TensorSpec = tuple[str, list[int], str]
"""Specification of a tensor for receivers, as plain values: name, shape, torch's name of the type."""


@dataclass(frozen=True)
class Rendezvous:
    """Address and settings with which the members of a channel join."""

    host: str
    """Address of the sender for the receivers."""
    port: int
    size: int
    """Number of members, including the sender."""
    backend: Backend
    timeout_s: float
    """Longest wait for a member in seconds, when joining and in each transfer."""

    def to_json(self) -> Tree:
        """Returns the fields as plain values, for other processes."""
        return asdict(self)


class WeightChannel:
    """A member of the channel. The constructor blocks until all members have joined.

    Raises:
        RuntimeError: a member did not join, or is gone.
    """

    def __init__(self, meeting: Rendezvous, rank: int, store: object, host: str, device: torch.device) -> None:
        """`host` is this member's own address; `device` holds the tensors."""
        self._device = device if meeting.backend == "nccl" else torch.device("cpu")
        prefixed = c10d.PrefixStore("weights", store)
        self._group: Any
        if meeting.backend == "gloo":
            self._group = gloo_group(prefixed, rank, meeting.size, host, meeting.timeout_s)
        else:
            self._group = nccl_group(prefixed, rank, meeting.size, meeting.timeout_s)

    @classmethod
    def join(cls, meeting: Rendezvous, rank: int, host: str, device: torch.device) -> WeightChannel:
        """Joins the sender's store as receiver number `rank` (from 1)."""
        timeout = timedelta(seconds=meeting.timeout_s)
        store = c10d.TCPStore(meeting.host, meeting.port, meeting.size, False, timeout, wait_for_workers=False)
        return cls(meeting, rank, store, host, device)

    def send(self, tensors: Iterable[torch.Tensor]) -> None:
        """Sends the tensors to every receiver, which must know their shapes and types."""
        for tensor in tensors:
            self._broadcast(tensor.detach().to(self._device).contiguous())

    def receive(self, specs: Sequence[TensorSpec]) -> Iterator[tuple[str, torch.Tensor]]:
        """Receives the tensors of the sender, and yields them one at a time on this member's device."""
        for name, shape, dtype in specs:
            tensor = torch.empty(shape, dtype=getattr(torch, dtype), device=self._device)
            self._broadcast(tensor)
            yield name, tensor

    def _broadcast(self, tensor: torch.Tensor) -> None:
        options = c10d.BroadcastOptions()
        options.rootRank = 0
        # As bytes: gloo does not know bfloat16.
        self._group.broadcast([tensor.reshape(-1).view(torch.uint8)], options).wait()


class Sender:
    """The member of rank 0, which opens the store and waits for the others in `meet`."""

    def __init__(self, host: str, size: int, backend: Backend, timeout_s: float, device: torch.device) -> None:
        """Listens on `host` only, at a port of the system's choice."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind((host, 0))
        listener.listen()
        port = int(listener.getsockname()[1])
        timeout = timedelta(seconds=timeout_s)
        self._store = c10d.TCPStore(
            host, port, size, True, timeout, wait_for_workers=False, master_listen_fd=listener.detach()
        )
        self.meeting = Rendezvous(host, port, size, backend, timeout_s)
        self._device = device
        self._channel: WeightChannel | None = None

    def send(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Broadcasts the tensors, after all members have joined."""
        if self._channel is None:
            self._channel = WeightChannel(self.meeting, 0, self._store, self.meeting.host, self._device)
        self._channel.send(tensors.values())


def specs_of(tensors: Mapping[str, torch.Tensor]) -> list[TensorSpec]:
    """Returns the specifications that receivers need."""
    return [(name, list(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in tensors.items()]
