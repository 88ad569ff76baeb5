"""Gradient checkpointing: layers keep only their input, and recompute the rest in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer


@contextmanager
def recomputed_layers(llm: PreTrainedModel) -> Iterator[None]:
    """Checkpoints the layers in forward passes of `llm`: they keep one hidden state per layer and token.

    transformers' own switch works only in training mode, whose dropout makes the trained policy differ from the one
    that samples; it also disables the cache of a sampler that shares the module.
    """
    layers = layers_to_recompute(llm)
    for layer in layers:
        # On the instance, so that it hides the class's until it is deleted.
        layer.__dict__["forward"] = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["forward"]


def layers_to_recompute(llm: PreTrainedModel) -> list[GradientCheckpointingLayer]:
    """Returns `layers_of` the model, which must have some.

    Raises:
        ValueError: it has none.
    """
    found = layers_of(llm)
    if not found:
        raise ValueError(
            f"learner.gradient_checkpointing: {type(llm).__name__} has no layers that can be computed again;"
            " allowed: false"
        )
    return found


def layers_of(llm: PreTrainedModel) -> list[GradientCheckpointingLayer]:
    """Returns the model's outermost checkpointable layers: its blocks."""
    found: dict[str, GradientCheckpointingLayer] = {}
    for name, module in llm.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in found)
        if isinstance(module, GradientCheckpointingLayer) and not inside:
            found[name] = module
    return list(found.values())
