"""Weights in safetensors files with the number of their update."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file

from rllib_ragen.models.weight_arrays import WeightArray, WeightState, from_array, to_array


def save_weights(path: Path, state: Mapping[str, WeightArray], version: str) -> None:
    """Writes `state` atomically to `path`."""
    tensors = {name: from_array(array) for name, array in state.items()}
    temporary = path.with_suffix(".part")
    save_file(tensors, temporary, metadata={"format": "pt", "weights_seq_no": version})
    os.replace(temporary, path)


def load_weights(path: Path, version: str) -> WeightState:
    """Reads the state of `save_weights`.

    Raises:
        ValueError: the file is not of the update `version`.
    """
    with safe_open(path, framework="pt") as file:
        found = (file.metadata() or {}).get("weights_seq_no")
        if found != version:
            raise ValueError(f"{str(path)!r} belongs to update {found}, the checkpoint to update {version}")
        names: list[str] = list(file.keys())
        return {name: to_array(file.get_tensor(name)) for name in names}
