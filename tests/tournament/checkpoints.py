"""Checkpoints as a run leaves them, of the embedded model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from rllib_ragen.config.paths import EMBEDDED_MODEL
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.llm_module import LLM
from rllib_ragen.models.lora import add_adapters, is_adapter
from rllib_ragen.models.lora_settings import LoraSettings
from rllib_ragen.models.weight_arrays import WeightState, to_array
from rllib_ragen.starpo.checkpoint.save import save_checkpoint
from rllib_ragen.starpo.checks.build_config import build_config


def random_adapters(settings: LoraSettings) -> WeightState:
    """A module's state: adapters of the embedded model with random weights."""
    llm = AutoModelForCausalLM.from_pretrained(model_folder(EMBEDDED_MODEL))
    add_adapters(llm, settings)
    return {LLM + name: to_array(tensor.normal_()) for name, tensor in llm.state_dict().items() if is_adapter(name)}


def run_with_checkpoints(
    folder: Path,
    iterations: tuple[int, ...],
    policies: tuple[str, ...] = ("default_policy",),
    config: Any = None,
    lora: LoraSettings | None = None,
) -> list[Path]:
    """A run folder with its config and checkpoints → these; nothing has been learnt, or random adapters."""
    source = model_folder(EMBEDDED_MODEL)
    with safe_open(source / "model.safetensors", framework="pt") as file:
        weights = {LLM + name: to_array(file.get_tensor(name)) for name in list(file.keys())}
    if lora is not None:
        weights = random_adapters(lora)
    folder.mkdir(parents=True)
    full = build_config(config or {}).model_dump(mode="json")
    (folder / "config.yaml").write_text(yaml.safe_dump(full))
    paths = [folder / "checkpoints" / f"iteration_{number:06d}" for number in iterations]
    for path in paths:
        state = {
            "weights_seq_no": 1,
            "rl_module": dict.fromkeys(policies, weights),
            "optimizer": {},
            "skipped_in_a_row": {},
        }
        save_checkpoint(path, state, {}, full, source, lora=lora)
    return paths
