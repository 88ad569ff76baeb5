"""Rows → padded micro-batches under a token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from rllib_ragen.types import TokenRow


@dataclass(frozen=True)
class MicroBatch:
    """One forward pass. Per-token tensors hold trained tokens only: [N], row by row."""

    input_ids: Tensor
    """[B, T] int64, right-padded with 0."""
    trained: Tensor
    """[B, T] bool."""
    old_logprobs: Tensor
    advantages: Tensor
    returns: Tensor
    old_values: Tensor
    scale: Tensor
    """Factor of the token's loss terms in the sum over the whole minibatch."""
    weight: Tensor
    """Factor of the token's policy loss: its trajectory's weight."""

    def to(self, device: torch.device) -> MicroBatch:
        """On `device`."""
        moved = {field.name: getattr(self, field.name).to(device, non_blocking=True) for field in fields(self)}
        return MicroBatch(**moved)


def plan_microbatches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Positions of `lengths` in batches, longest first, rows × longest ≤ budget tokens (a longer row goes alone)."""
    plan: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        # The first of a batch is its longest.
        if plan and (len(plan[-1]) + 1) * lengths[plan[-1][0]] <= budget:
            plan[-1].append(index)
        else:
            plan.append([index])
    return plan


def microbatches(
    rows: Sequence[TokenRow], scales: Sequence[float], budget: int
) -> Iterator[tuple[list[int], MicroBatch]]:
    """(positions in `rows`, padded batch), each of at most `budget` padded tokens."""
    for indices in plan_microbatches([row.num_tokens for row in rows], budget):
        yield indices, pad_rows([rows[i] for i in indices], [scales[i] for i in indices])


def pad_rows(rows: Sequence[TokenRow], scales: Sequence[float]) -> MicroBatch:
    """One micro-batch of `rows`."""
    width = max(row.num_tokens for row in rows)
    ids = np.zeros((len(rows), width), np.int64)
    trained = np.zeros((len(rows), width), np.bool_)
    for i, row in enumerate(rows):
        ids[i, : row.num_tokens] = row.token_ids
        trained[i, : row.num_tokens] = row.mask > 0
    counts = trained.sum(1)

    def packed(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(row, name)[row.mask > 0] for row in rows]).astype(np.float32))

    def spread(numbers: Sequence[float]) -> Tensor:
        return torch.from_numpy(np.repeat(np.asarray(numbers, np.float32), counts))

    return MicroBatch(
        input_ids=torch.from_numpy(ids),
        trained=torch.from_numpy(trained),
        old_logprobs=packed("logprobs"),
        advantages=packed("advantages"),
        returns=packed("returns"),
        old_values=packed("old_values"),
        scale=spread(scales),
        weight=spread([row.weight for row in rows]),
    )
