"""Gradient checkpointing: layers keep their input only, and compute the rest again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer


@contextmanager
def recomputed_layers(llm: PreTrainedModel) -> Iterator[None]:
    """Lets forward passes of `llm` within it keep one hidden state per layer and token.

    transformers' own switch works in training mode only, in which dropout is on and the policy that is trained is not
    the one that samples; it also takes the cache from a sampler that shares the module.
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
    """Returns the same as `layers_of`.

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
