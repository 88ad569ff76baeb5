"""What adapters a run trains. Imports nothing heavy."""

from __future__ import annotations

from typing import TypedDict

from rllib_ragen.config.schema import LearnerSection

ALPHA_PER_RANK = 2.0
"""lora_alpha/lora_rank where the config leaves it open."""


class LoraSettings(TypedDict):
    """W x becomes W x + alpha/rank · B A x in the targets (LoRA, Hu et al. 2021, arXiv 2106.09685)."""

    rank: int
    """Rows of A and columns of B."""
    alpha: float
    targets: list[str] | None
    """Names of linear layers, or ends of them after a dot; None: all but the head."""


def lora_settings(learner: LearnerSection) -> LoraSettings | None:
    """Returns the settings that the config means; None: all weights are trained."""
    rank = learner.lora_rank
    if rank is None:
        return None
    alpha = ALPHA_PER_RANK * rank if learner.lora_alpha is None else learner.lora_alpha
    return LoraSettings(rank=rank, alpha=alpha, targets=learner.lora_targets)


def is_named(layer: str, target: str) -> bool:
    """Says whether a target means the layer: `q_proj` and `self_attn.q_proj` mean `model.layers.0.self_attn.q_proj`."""
    return layer == target or layer.endswith(f".{target}")
