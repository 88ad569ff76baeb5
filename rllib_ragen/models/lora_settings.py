"""The adapters that a run trains. Imports nothing heavy."""

from __future__ import annotations

from typing import TypedDict

from rllib_ragen.config.schema import LearnerSection

ALPHA_PER_RANK = 2.0
"""Default of lora_alpha/lora_rank: chosen freely."""


class LoraSettings(TypedDict):
    """W x becomes W x + alpha/rank · B A x in the targets (LoRA, Hu et al. 2021, arXiv 2106.09685)."""

    rank: int
    """Rank: rows of A and columns of B."""
    alpha: float
    targets: list[str] | None
    """Names of linear layers, or ends of them after a dot; None: all but the head."""


def lora_settings(learner: LearnerSection) -> LoraSettings | None:
    """Returns the config's adapter settings; None: all weights are trained."""
    rank = learner.lora_rank
    if rank is None:
        return None
    alpha = ALPHA_PER_RANK * rank if learner.lora_alpha is None else learner.lora_alpha
    return LoraSettings(rank=rank, alpha=alpha, targets=learner.lora_targets)


def is_named(layer: str, target: str) -> bool:
    """Returns whether `target` names the layer: `q_proj` and `self_attn.q_proj` name
    `model.layers.0.self_attn.q_proj`.
    """
    return layer == target or layer.endswith(f".{target}")
