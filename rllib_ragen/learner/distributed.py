"""Collective operations of the learners: sums of gradients and of statistics over the process group.

Gradients are summed once per optimiser step, after all micro-batches, instead of by DistributedDataParallel: the loss
is a sum over the whole minibatch already, and learners may have different numbers of micro-batches, or none. Those of
sharded weights are summed by FSDP2 in every backward pass, of which all learners make the same number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from rllib_ragen.models.fsdp import is_sharded
from rllib_ragen.models.llm_module import LLMRLModule

_BUCKET_ELEMENTS = 1 << 24
"""Elements of one transfer, 64 MB in float32: chosen freely, large against latency and small beside the weights."""


def is_distributed() -> bool:
    """Returns whether this process is one of several learners."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def sum_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Replaces every gradient by its sum over the learners; a missing one counts as 0. Sharded ones are summed
    already.
    """
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    if not is_distributed():
        return
    for bucket in _buckets([parameter for parameter in parameters if not isinstance(parameter, DTensor)]):
        gradients = [parameter.grad for parameter in bucket if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))


def reduce_numbers(numbers: Tensor, *, largest: bool = False) -> Tensor:
    """Returns the sum (or the maximum) of `numbers` over the learners, entry by entry."""
    if is_distributed():
        dist.all_reduce(numbers, op=dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM)
    return numbers


def missing_passes(module: LLMRLModule, own: int) -> int:
    """Returns how many empty forward passes to add to `own` ones, so that all learners make the same number.

    0 unless the weights are sharded; then every pass gathers them from all learners, and this is a collective call.
    """
    if not is_sharded(module):
        return 0
    return int(reduce_numbers(torch.tensor(own, device=module.llm.device), largest=True)) - own


def clip_gradients(parameters: Sequence[nn.Parameter], limit: float) -> float:
    """Scales the gradients so that their global norm, over all learners, is at most `limit`.

    Returns:
        The norm before clipping, the same on every learner.
    """
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    if isinstance(norm, DTensor):
        norm = norm.full_tensor()
    nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return float(norm)


def broadcast_weights(module: nn.Module) -> None:
    """Copies the first learner's weights to all learners."""
    if is_distributed():
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.data, src=0)


def _buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Yields consecutive parameters of one type, up to _BUCKET_ELEMENTS at a time."""
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
