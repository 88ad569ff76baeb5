"""Weights from a learner straight into the processes of the engines: a process group beside torch's default one.

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
"""Untyped: the stubs lack what process groups are made of."""
Backend = Literal["gloo", "nccl"]
TensorSpec = tuple[str, list[int], str]
"""(name, shape, torch's name of the type): what a receiver must know of a tensor; plain, to travel anywhere."""


@dataclass(frozen=True)
class Rendezvous:
    """Where and how the members of a channel meet."""

    host: str
    """Address of the sender, as the receivers reach it."""
    port: int
    size: int
    """Members, the sender included."""
    backend: Backend
    timeout_s: float
    """Longest wait for a member, at the meeting and in each transfer."""

    def to_json(self) -> Tree:
        """Returns plain values, for other processes."""
        return asdict(self)


class WeightChannel:
    """One member. Making it blocks until all have come.

    Raises:
        RuntimeError: a member did not come, or is gone.
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
        """Returns receiver number `rank` (from 1) comes to the sender's store."""
        timeout = timedelta(seconds=meeting.timeout_s)
        store = c10d.TCPStore(meeting.host, meeting.port, meeting.size, False, timeout, wait_for_workers=False)
        return cls(meeting, rank, store, host, device)

    def send(self, tensors: Iterable[torch.Tensor]) -> None:
        """Gives the tensors to every receiver, which must know their shapes and types."""
        for tensor in tensors:
            self._broadcast(tensor.detach().to(self._device).contiguous())

    def receive(self, specs: Sequence[TensorSpec]) -> Iterator[tuple[str, torch.Tensor]]:
        """Returns the tensors that the sender sends, one at a time, on this member's device."""
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
    """Rank 0: opens the store, then waits for the others in `meet`."""

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
        """Broadcasts, after all members have come."""
        if self._channel is None:
            self._channel = WeightChannel(self.meeting, 0, self._store, self.meeting.host, self._device)
        self._channel.send(tensors.values())


def specs_of(tensors: Mapping[str, torch.Tensor]) -> list[TensorSpec]:
    """Says what receivers must know."""
    return [(name, list(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in tensors.items()]
