"""A causal LM from a folder, to sample from: weights from safetensors, no code, no download."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel


def load_model(folder: Path, dtype: torch.dtype, adapter: Path | None = None) -> PreTrainedModel:
    """Loads the model, with the adapters of the peft folder `adapter` merged into its weights."""
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, use_safetensors=True, local_files_only=True, trust_remote_code=False
    )
    if adapter is None:
        return model
    from peft import PeftModel

    merged: PreTrainedModel = PeftModel.from_pretrained(model, adapter, local_files_only=True).merge_and_unload()
    return merged
