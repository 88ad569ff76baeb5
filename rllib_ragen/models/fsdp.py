"""FSDP2: every learner keeps a part of every weight, and each layer gathers its weights while it computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor


def shard(module: nn.Module, layers: Sequence[nn.Module], methods: Sequence[str], device: torch.device) -> None:
    """Shards the weights of `module` among all processes of the group, and moves this process's part to `device`.

    A collective call; all processes must have the same weights. Layers gather their weights one after the other,
    forward and backward; weights outside of layers are gathered while one of `methods` runs. Otherwise every weight is
    a DTensor, and every gradient the sum over the processes.
    """
    if device.type == "cuda":
        torch.cuda.set_device(device)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for part in [*layers, module]:
        # The outermost one, too, is freed after its forward pass: what stays gathered would miss the next step.
        sharded = fully_shard(part, mesh=mesh, reshard_after_forward=True)
        # Sums: the loss has the scales of the whole minibatch already. gloo cannot do anything else.
        sharded.set_gradient_divide_factor(1.0)
        sharded.set_force_sum_reduction_for_comms(True)
    for method in methods:
        register_fsdp_forward_method(module, method)


def is_sharded(module: nn.Module) -> bool:
    """Returns whether `module` is sharded: then every forward pass is a collective call."""
    return isinstance(module, FSDPModule)


def gathered(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yields each tensor by name, gathered if it is sharded.

    For sharded tensors a collective call that yields them on the first process only.
    """
    for name, tensor in tensors.items():
        if not isinstance(tensor, DTensor):
            yield name, tensor
            continue
        whole = cast(DTensor, tensor.detach()).full_tensor()
        if dist.get_rank() == 0:
            yield name, whole


def own_part(tensor: Tensor) -> Tensor:
    """Returns this process's part of a tensor: all of it, unless it is sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def like(tensor: Tensor, whole: Tensor) -> Tensor:
    """Returns `whole` on the device of `tensor`, or this process's part of it if `tensor` is sharded; not a
    collective.
    """
    if not isinstance(tensor, DTensor):
        return whole.to(tensor.device)
    # Every process has the whole, so none needs to be sent its part.
    placed: Tensor = distribute_tensor(
        whole.to(tensor.device), tensor.device_mesh, tensor.placements, src_data_rank=None
    )
    return placed
