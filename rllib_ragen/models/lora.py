"""Low-rank adapters in a transformers model, by the library peft. Imported only if adapters are asked for."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from rllib_ragen.models.lora_settings import LoraSettings, is_named

_ADAPTER = "default"
_BASE = ".base_layer."
_PARTS = (".lora_A.", ".lora_B.")


def is_adapter(name: str) -> bool:
    """Returns whether a weight of that name is an adapter's."""
    return any(part in name for part in _PARTS)


def add_adapters(llm: PreTrainedModel, settings: LoraSettings, seed: int = 0) -> None:
    """Adds adapters to linear layers of `llm`, in place, without effect yet (B = 0), and freezes all other weights.

    Raises:
        ValueError: a target that is not a linear layer, or is the head.
    """
    head = llm.get_output_embeddings()
    layers = [n for n, module in llm.named_modules() if isinstance(module, nn.Linear | Conv1D) and module is not head]
    targets = settings["targets"]
    for target in targets or []:
        if not any(is_named(layer, target) for layer in layers):
            raise ValueError(f"learner.lora_targets: {type(llm).__name__} has no linear layer {target!r} but the head")
    chosen = [layer for layer in layers if targets is None or any(is_named(layer, target) for target in targets)]
    # Local randomness: every learner must start with the same adapters, whatever else has drawn numbers.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(lora_config(settings, chosen), llm, adapter_name=_ADAPTER)


def lora_config(settings: LoraSettings, targets: list[str]) -> LoraConfig:
    """Returns the settings as peft's config, without dropout (the trained policy must be the one that samples) or
    biases.
    """
    return LoraConfig(
        r=settings["rank"],
        lora_alpha=settings["alpha"],
        target_modules=targets,
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )


def adapted_layers(names: Iterable[str]) -> list[str]:
    """Returns the layers that the adapters' weights `names` belong to."""
    return sorted({name.split(part)[0] for name in names for part in _PARTS if part in name})


def merged_state(llm: PreTrainedModel) -> dict[str, Tensor]:
    """Returns the state of a plain model with the adapters merged: W + alpha/rank · B A.

    Names are the plain model's. `llm` itself is not changed; weights without adapters share its memory.
    """
    layers = {f"{name}{_BASE}weight": layer for name, layer in llm.named_modules() if isinstance(layer, LoraLayer)}
    state: dict[str, Tensor] = {}
    with torch.no_grad():
        for name, tensor in llm.state_dict().items():
            if not is_adapter(name):
                layer = layers.get(name)
                own = tensor if layer is None else tensor + layer.get_delta_weight(_ADAPTER)
                state[name.replace(_BASE, ".")] = own
    return state


def to_peft_name(name: str) -> str:
    """Converts an adapter weight's name in a model's state to its name in a peft folder."""
    return f"base_model.model.{name.replace(f'.{_ADAPTER}.', '.')}"


def from_peft_name(name: str) -> str:
    """Inverts `to_peft_name`."""
    layer, part, rest = name.removeprefix("base_model.model.").rsplit(".", 2)
    return f"{layer}.{part}.{_ADAPTER}.{rest}"
