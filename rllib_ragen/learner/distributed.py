"""Several learners as one: sums of gradients and of statistics over the process group.

Gradients are summed once per optimiser step, after all micro-batches, instead of by DistributedDataParallel: the loss
is a sum over the whole minibatch already, and learners may have different numbers of micro-batches, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

_BUCKET_ELEMENTS = 1 << 24


def is_distributed() -> bool:
    """Whether this process is one of several learners."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def sum_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Replaces every gradient by its sum over the learners; a missing one counts as 0."""
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    if not is_distributed():
        return
    for bucket in _buckets(parameters):
        gradients = [parameter.grad for parameter in bucket if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))


def reduce_numbers(numbers: Tensor, *, largest: bool = False) -> Tensor:
    """`numbers` summed (or their maximum taken) over the learners, entry by entry."""
    if is_distributed():
        dist.all_reduce(numbers, op=dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)
    return numbers


def broadcast_weights(module: nn.Module) -> None:
    """All learners start from the first one's weights."""
    if is_distributed():
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.data, src=0)


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Consecutive parameters of one type, some tens of megabytes at a time."""
    bucket: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        if bucket and (size + parameter.numel() > _BUCKET_ELEMENTS or parameter.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.numel()
    if bucket:
        yield bucket
