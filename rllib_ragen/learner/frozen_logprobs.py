"""Log-probs of an update's rows under weights that are not trained, computed before its first step.

These are the weights at the start of the update, for truncated importance sampling, and at the start of the run, for
the KL term.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.learner.distributed import missing_passes
from rllib_ragen.learner.microbatches import MicroBatch, empty_microbatch, microbatches, num_microbatches
from rllib_ragen.models.llm_module import LLMRLModule, TokenOutputs
from rllib_ragen.types import FloatArray, TokenRow

RowArrays = dict[int, FloatArray]
"""Arrays by the index of a row in its update: [num_tokens], 0 outside the mask."""


@dataclass
class FrozenLogProbs:
    """Log-probs of one update's rows under frozen weights."""

    old: RowArrays = field(default_factory=dict)
    """Log-probs of the policy at the start of the update, without rows that only the first step uses: it has these
    weights.
    """
    reference: RowArrays = field(default_factory=dict)


def frozen_copy(module: LLMRLModule, *, share: bool = True) -> LLMRLModule:
    """Returns the policy as it is now, without critic or gradients.

    share: weights that are never trained (the adapters' base) are shared with `module`; impossible if sharded.
    """
    shared = {
        id(parameter): parameter for parameter in module.llm.parameters() if share and not parameter.requires_grad
    }
    twin = copy.deepcopy(module, dict[int, object](shared))
    twin.value_head = None
    twin.requires_grad_(False)
    return twin


def frozen_logprobs(
    steps: Sequence[Sequence[TokenRow]],
    modules: Mapping[str, LLMRLModule],
    references: Mapping[str, LLMRLModule],
    settings: LearnerSection,
    device: torch.device,
) -> FrozenLogProbs:
    """Computes the frozen log-probs that the objective needs for the rows of an update's steps, and no others."""
    found = FrozenLogProbs()
    for module_id, module in modules.items():
        own = [[row for row in rows if row.module_id == module_id] for rows in steps]
        if settings.tis_cap is not None:
            later = [row for rows in own[1:] for row in rows]
            found.old |= _by_index(later, module, settings.microbatch_tokens, device)
        if module_id in references and settings.kl_in == "loss":
            every = [row for rows in own for row in rows]
            found.reference |= _by_index(every, references[module_id], settings.microbatch_tokens, device)
    return found


def _by_index(rows: Sequence[TokenRow], module: LLMRLModule, budget: int, device: torch.device) -> RowArrays:
    """Scores each row once, even if several steps use it."""
    unique = {row.index: row for row in rows}
    if any(index < 0 for index in unique):
        raise ValueError("rows of an update have no index: TokenTrainingData.plan gives it")
    return dict(zip(unique, score_rows(list(unique.values()), module, "logprobs", budget, device), strict=True))


def score_rows(
    rows: Sequence[TokenRow],
    module: LLMRLModule,
    output: Literal["logprobs", "values"],
    budget: int,
    device: torch.device,
) -> list[FloatArray]:
    """Computes an output of the module for each row, without gradient: [num_tokens], 0 outside the mask.

    A collective call if the weights are sharded.
    """
    found = [np.zeros(row.num_tokens, np.float32) for row in rows]
    positions = [i for i, row in enumerate(rows) if row.num_trained_tokens]
    trained = [rows[i] for i in positions]

    @torch.no_grad()
    def outputs_of(batch: MicroBatch) -> TokenOutputs:
        return module.token_outputs(
            batch.input_ids.to(device), batch.trained.to(device), logprobs=output == "logprobs", entropy=False
        )

    missing = missing_passes(module, num_microbatches(trained, budget))
    for indices, batch in microbatches(trained, [0.0] * len(trained), budget):
        outputs = outputs_of(batch)
        ends = np.cumsum([trained[i].num_trained_tokens for i in indices])
        for i, part in zip(indices, np.split(outputs[output].float().cpu().numpy(), ends[:-1]), strict=True):
            found[positions[i]][trained[i].mask > 0] = part
    for _ in range(missing):
        outputs_of(empty_microbatch())
    return found


def known(rows: Sequence[TokenRow], arrays: RowArrays) -> list[FloatArray] | None:
    """Returns the arrays of all `rows`; None if any is missing."""
    found = [arrays[row.index] for row in rows if row.index in arrays]
    return found if len(found) == len(rows) else None
