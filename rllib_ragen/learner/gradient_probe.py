"""Gradients of the loss's terms by bucket of reward std, on the learners, without a step (RAGEN-2, 2604.06268).

Each bucket takes three passes, one per term. The scales are the loss's own, so the buckets' gradients, each
times the bucket's share, add up to the batch's. Weights, moments and random states stay as they are; `.grad` is used
and left empty, as an optimiser step finds it anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from ray.rllib.core.learner.learner_group import LearnerGroup
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.credit.group_scores import group_reward_stds
from rllib_ragen.diagnostics.gradient_buckets import TERMS, Bucket, Gradients, in_buckets
from rllib_ragen.learner.distributed import missing_passes, sum_gradients
from rllib_ragen.learner.frozen_logprobs import score_rows
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.learner_calls import on_every_learner
from rllib_ragen.learner.losses.aggregate import row_scales
from rllib_ragen.learner.losses.kl import kl_loss
from rllib_ragen.learner.microbatches import MicroBatch, empty_microbatch, microbatches, num_microbatches
from rllib_ragen.learner.objective import objective
from rllib_ragen.learner.training_data import balance
from rllib_ragen.models.llm_module import VALUE_HEAD, TokenOutputs
from rllib_ragen.types import FloatArray, TokenRow, Trajectory

Norms = dict[str, float]


def measure_gradients(
    learners: LearnerGroup,
    module_id: str,
    trajectories: Sequence[Trajectory],
    credited: Sequence[TokenRow],
    settings: LearnerSection,
    num_buckets: int,
) -> Gradients:
    """Measures gradient norms by bucket and of the whole batch.

    Args:
        learners: the learners with the policy; all of them take part.
        module_id: id of the policy.
        trajectories: an unfiltered batch of the policy.
        credited: a row for each trajectory with a sampled token, in order.
        settings: aggregation and coefficients of the loss.
        num_buckets: ≥ 1.
    """
    trained: dict[str, list[TokenRow]] = {}
    for one, row in zip([one for one in trajectories if one.num_reply_tokens], credited, strict=True):
        trained.setdefault(one.group_id, []).append(row)
    reward_stds = {group: std for group, std in group_reward_stds(trajectories).items() if group in trained}
    names = in_buckets(reward_stds, num_buckets)
    parts = [[row for group in groups for row in trained[group]] for groups in names]
    shares = _shares(parts, settings)

    def norms(learner: StarPOLearner) -> tuple[list[Norms], Norms]:
        return _norms_on_learner(learner, module_id, parts, shares)

    # Norms are of sums over the learners: the same on all of them.
    by_bucket, whole = on_every_learner(learners, norms)[0]
    buckets = []
    for groups, part, share, found in zip(names, parts, shares, by_bucket, strict=True):
        stds = [reward_stds[group] for group in groups]
        tokens = sum(row.num_trained_tokens for row in part)
        mean = sum(stds) / len(stds)
        buckets.append(Bucket(mean, min(stds), max(stds), len(groups), len(part), tokens, share, found))
    coefficients = {"task": 1.0, "entropy": settings.entropy_coeff, "kl": settings.kl_coeff}
    return Gradients(buckets, whole, coefficients)


def _shares(parts: Sequence[Sequence[TokenRow]], settings: LearnerSection) -> list[float]:
    """Returns the weight of each part's mean in the mean of the whole: its share of the tokens, or of the rows."""
    by_tokens = settings.aggregation == "token-mean"
    sizes = [sum(row.num_trained_tokens for row in part) if by_tokens else len(part) for part in parts]
    return [size / sum(sizes) for size in sizes]


def _norms_on_learner(
    learner: StarPOLearner, module_id: str, parts: Sequence[Sequence[TokenRow]], shares: Sequence[float]
) -> tuple[list[Norms], Norms]:
    """Returns (norms of every part, norms of Σ share · part). A collective call: every learner has a share of each
    part, maybe empty.
    """
    module = learner.module[module_id].unwrapped()
    parameters = [p for name, p in module.named_parameters() if p.requires_grad and not name.startswith(VALUE_HEAD)]
    reference = learner.references.get(module_id)
    terms = [term for term in TERMS if term != "kl" or reference is not None]
    found: list[Norms] = [dict.fromkeys(TERMS, float("nan")) for _ in parts]
    whole = dict.fromkeys(TERMS, float("nan"))
    own = [_Part(learner, module_id, part) for part in parts]
    for term in terms:
        total = [torch.zeros_like(parameter) for parameter in parameters]
        for k, part in enumerate(own):
            _clear(module)
            part.backward(term)
            sum_gradients(parameters)
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            found[k][term] = _norm(gradients)
            for whole_gradient, gradient in zip(total, gradients, strict=True):
                whole_gradient.add_(gradient, alpha=shares[k])
        whole[term] = _norm(total)
    _clear(module)
    return found, whole


class _Part:
    """One learner's rows of a bucket."""

    def __init__(self, learner: StarPOLearner, module_id: str, part: Sequence[TokenRow]) -> None:
        settings: LearnerSection = learner.settings
        self._of, self._module = learner, learner.module[module_id].unwrapped()
        # No critic, and no regulariser: they are terms of their own, or not of the policy.
        self._task = settings.model_copy(update={"entropy_coeff": 0.0, "kl_coeff": 0.0, "value_coeff": 0.0})
        self._rows = balance(part, max(1, learner.config.num_learners))[learner.index]
        self._scales = row_scales(
            [row.num_trained_tokens for row in self._rows],
            settings.aggregation,
            total_tokens=sum(row.num_trained_tokens for row in part),
            total_rows=len(part),
            norm_tokens=settings.norm_tokens or learner.config.max_context_tokens,
        )
        self._reference: list[FloatArray] = []
        reference = learner.references.get(module_id)
        if reference is not None:
            budget, device = settings.microbatch_tokens, learner.device
            self._reference = score_rows(self._rows, reference, "logprobs", budget, device)

    def backward(self, term: str) -> None:
        """Accumulates the gradient of the bucket's mean of `term` in the parameters."""
        budget = self._of.settings.microbatch_tokens
        missing = missing_passes(self._module, num_microbatches(self._rows, budget))
        for indices, batch in microbatches(self._rows, self._scales, budget):
            rows = [self._rows[i] for i in indices]
            reference = [self._reference[i] for i in indices] if term == "kl" else None
            self._pass(term, batch.with_logprobs(rows, None, reference))
        for _ in range(missing):
            self._pass("entropy", empty_microbatch())

    def _pass(self, term: str, batch: MicroBatch) -> None:
        batch = batch.to(self._of.device)
        recompute = self._of.settings.gradient_checkpointing
        outputs = self._module.token_outputs(batch.input_ids, batch.trained, recompute=recompute)
        self._term(term, outputs, batch).backward()

    def _term(self, term: str, outputs: TokenOutputs, batch: MicroBatch) -> Tensor:
        if term == "task":
            return objective(outputs, batch, self._task).loss
        if term == "entropy":
            return (batch.scale * outputs["entropy"]).sum()
        assert batch.reference_logprobs is not None
        per_token = kl_loss(outputs["logprobs"], batch.reference_logprobs, self._task.kl_estimator)
        return (batch.scale * per_token).sum()


def _clear(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.grad = None


def _norm(gradients: Sequence[Tensor]) -> float:
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g.double()) for g in gradients]))
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
