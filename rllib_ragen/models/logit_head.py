"""From hidden states to logits: the output layer, and the scaling and capping of some model families."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

_TOLERANCE = 1e-3
"""Largest difference of float32 logits that counts as rounding and not as another kind of head: chosen freely."""


@dataclass(frozen=True)
class LogitHead:
    """logits = cap · tanh(factor · (W h + b) / cap) / temperature; without a cap, factor · (W h + b) / temperature."""

    factor: float = 1.0
    cap: float | None = None
    temperature: float = 1.0

    @classmethod
    def of(cls, llm: PreTrainedModel, temperature: float) -> LogitHead:
        """Makes the head that the model's configuration describes."""
        config: Any = llm.config.get_text_config()
        factor = getattr(config, "logit_scale", None) or getattr(config, "lm_head_multiplier", None) or 1.0
        scaling = getattr(config, "logits_scaling", None) or 1.0
        cap = getattr(config, "final_logit_softcapping", None) or getattr(config, "logits_soft_cap", None)
        return cls(float(factor) / float(scaling), None if cap is None else float(cap), temperature)

    def logits(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Computes logits [N, V] of hidden states [N, H], in float32 (float64 stays)."""
        raw = nn.functional.linear(hidden, weight, bias)
        raw = raw if raw.dtype == torch.float64 else raw.float()
        if self.cap is not None:
            return raw.mul_(self.factor / self.cap).tanh_().mul_(self.cap / self.temperature)
        scale = self.factor / self.temperature
        return raw if scale == 1.0 else raw.mul_(scale)

    def to_raw(self, gradient: Tensor, logits: Tensor | None) -> Tensor:
        """Turns dL/dlogits into dL/d(W h + b), in place. `logits` are needed only with a cap."""
        scale = self.factor / self.temperature
        if self.cap is not None:
            assert logits is not None
            gradient.mul_(1.0 - (logits * (self.temperature / self.cap)) ** 2)
        return gradient if scale == 1.0 else gradient.mul_(scale)


def check_head(llm: PreTrainedModel, hidden: Tensor, logits: Tensor) -> None:
    """Compares the model's own `logits` [..., V] with those of LogitHead for `hidden` [..., H].

    Raises:
        ValueError: they differ, so the model has a head that this project does not know.
    """
    layer: Any = llm.get_output_embeddings()
    own = LogitHead.of(llm, 1.0).logits(hidden, layer.weight, layer.bias)
    if own.shape != logits.shape or not torch.allclose(own, logits.float(), atol=_TOLERANCE, rtol=_TOLERANCE):
        raise ValueError(
            f"model.path: {type(llm).__name__} makes its logits in a way that is not known here (allowed: its output"
            " layer, times a factor, soft-capped), so its log-probs cannot be computed in chunks"
        )
