"""Adapters on disk, in peft's form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rllib_ragen.models.llm_module import lm_weights
from rllib_ragen.models.lora_settings import LoraSettings
from rllib_ragen.models.weight_arrays import WeightArray, WeightState
from rllib_ragen.starpo.checkpoint.layout import ADAPTER_WEIGHTS
from rllib_ragen.starpo.checkpoint.weight_files import load_weights, save_weights


def write_adapter_folder(
    folder: Path, state: Mapping[str, WeightArray], settings: LoraSettings, source: Path, version: str = ""
) -> None:
    """Writes a folder that `peft.PeftModel.from_pretrained(model, folder)` loads.

    Args:
        folder: the folder, made if necessary.
        state: state of a module with adapters; other entries are left out.
        settings: settings of the adapters.
        source: folder of the base model.
        version: number of the update.
    """
    from rllib_ragen.models.lora import adapted_layers, is_adapter, lora_config, to_peft_name

    adapters = {name: array for name, array in lm_weights(state).items() if is_adapter(name)}
    folder.mkdir(parents=True, exist_ok=True)
    config = lora_config(settings, adapted_layers(adapters))
    config.base_model_name_or_path = str(source.resolve())
    config.save_pretrained(folder)
    save_weights(folder / ADAPTER_WEIGHTS, {to_peft_name(name): array for name, array in adapters.items()}, version)


def read_adapter_folder(folder: Path, version: str) -> WeightState:
    """Reads the LM's part of the state of `write_adapter_folder`, with the model's own names.

    Raises:
        ValueError: it is not of the update `version`.
    """
    from rllib_ragen.models.lora import from_peft_name

    return {from_peft_name(name): array for name, array in load_weights(folder / ADAPTER_WEIGHTS, version).items()}
