"""Rows → padded micro-batches under a token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from ragen_envs.tree import Tree
from rllib_ragen.types import FloatArray, TokenRow


@dataclass(frozen=True)
class MicroBatch:
    """One forward pass. Per-token tensors hold trained tokens only: [N], row by row."""

    input_ids: Tensor
    """[B, T] int64, right-padded with 0."""
    trained: Tensor
    """[B, T] bool."""
    rows: Tensor
    """Index of each token's row, int64."""
    behaviour_logprobs: Tensor
    """Log-probs of the sampler."""
    advantages: Tensor
    returns: Tensor
    old_values: Tensor
    scale: Tensor
    """Factor of the token's loss terms in the minibatch's sum."""
    weight: Tensor
    """Factor of the token's policy loss: its trajectory's weight."""
    old_logprobs: Tensor | None = None
    """Log-probs of the learner with the weights that sampled; None: not computed, or these are the current weights."""
    reference_logprobs: Tensor | None = None
    """Log-probs of the reference policy; None: there is none."""

    def to(self, device: torch.device) -> MicroBatch:
        """Returns the micro-batch on `device`."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: Tree = {name: t if t is None else t.to(device, non_blocking=True) for name, t in own.items()}
        return MicroBatch(**moved)

    def with_logprobs(
        self, rows: Sequence[TokenRow], old: Sequence[FloatArray] | None, reference: Sequence[FloatArray] | None
    ) -> MicroBatch:
        """Returns the micro-batch with frozen log-probs of its `rows`, [num_tokens] each."""
        return replace(
            self,
            old_logprobs=None if old is None else _pack(rows, old),
            reference_logprobs=None if reference is None else _pack(rows, reference),
        )


def plan_microbatches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Returns batches of positions in `lengths`, longest first, with rows × longest ≤ budget tokens (a longer row
    alone).
    """
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
    """Yields (positions in `rows`, padded batch), each of at most `budget` padded tokens."""
    for indices in plan_microbatches([row.num_tokens for row in rows], budget):
        yield indices, pad_rows([rows[i] for i in indices], [scales[i] for i in indices])


def num_microbatches(rows: Sequence[TokenRow], budget: int) -> int:
    """Returns the number of `microbatches`."""
    return len(plan_microbatches([row.num_tokens for row in rows], budget))


def empty_microbatch() -> MicroBatch:
    """Makes a micro-batch whose loss and gradients are 0."""
    row = np.zeros(2, np.float32)
    return pad_rows([TokenRow(row.astype(np.int32), row, row, row, row, row)], [0.0])


def pad_rows(rows: Sequence[TokenRow], scales: Sequence[float]) -> MicroBatch:
    """Makes one padded micro-batch of `rows`."""
    width = max(row.num_tokens for row in rows)
    ids = np.zeros((len(rows), width), np.int64)
    trained = np.zeros((len(rows), width), np.bool_)
    for i, row in enumerate(rows):
        ids[i, : row.num_tokens] = row.token_ids
        trained[i, : row.num_tokens] = row.mask > 0
    counts = trained.sum(1)

    def packed(name: str) -> Tensor:
        return _pack(rows, [getattr(row, name) for row in rows])

    def per_token(numbers: Sequence[float]) -> Tensor:
        return torch.from_numpy(np.repeat(np.asarray(numbers, np.float32), counts))

    return MicroBatch(
        input_ids=torch.from_numpy(ids),
        trained=torch.from_numpy(trained),
        rows=torch.from_numpy(np.repeat(np.arange(len(rows)), counts)),
        behaviour_logprobs=packed("logprobs"),
        advantages=packed("advantages"),
        returns=packed("returns"),
        old_values=packed("old_values"),
        scale=per_token(scales),
        weight=per_token([row.weight for row in rows]),
    )


def _pack(rows: Sequence[TokenRow], arrays: Sequence[FloatArray]) -> Tensor:
    """Returns [N] float32: the entries of `arrays` at trained tokens, row by row."""
    parts = [array[row.mask > 0] for row, array in zip(rows, arrays, strict=True)]
    return torch.from_numpy(np.concatenate(parts).astype(np.float32))
