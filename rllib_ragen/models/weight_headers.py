"""The headers of safetensors files: names, shapes and types of weights, without reading them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from rllib_ragen.models.folder_files import MODEL_WEIGHTS, read_object

_INDEX = "model.safetensors.index.json"
_TRAINABLE = ("F32", "F16", "BF16", "F64")
"""Types that can be trained in float32: it holds their values exactly, but rounds F64, as any loader does."""
_MAY_BEMODEL_WEIGHTS_NUMBERS = ("position_ids", ".bias", "masked_bias")
"""Suffixes of names whose type is not checked: masks and positions of old checkpoints, and biases, which
quantisation does not change.
"""


class Weight(NamedTuple):
    """An entry of a safetensors header."""

    shape: tuple[int, ...]
    dtype: str


def weight_paths(folder: Path) -> list[Path]:
    """Returns the files from which transformers reads a model's weights.

    Raises:
        ValueError: there are none, or a part named in the index is missing; one sentence.
    """
    if (folder / MODEL_WEIGHTS).is_file():
        return [folder / MODEL_WEIGHTS]
    if not (folder / _INDEX).is_file():
        raise ValueError(
            f"model.path: the folder {str(folder)!r} holds no weights as safetensors"
            f" ({MODEL_WEIGHTS}, or parts and {_INDEX})"
        )
    parts = read_object(folder / _INDEX).get("weight_map")
    if not isinstance(parts, dict) or not parts or not all(isinstance(part, str) for part in parts.values()):
        raise ValueError(f"model.path: {folder / _INDEX} has no weight_map of names to files")
    names = sorted(set(parts.values()))
    for name in names:
        if Path(name).name != name:
            raise ValueError(f"model.path: {folder / _INDEX} names {name!r}, which is not in its folder")
        if not (folder / name).is_file():
            raise ValueError(f"model.path: {folder / name} is missing: {_INDEX} names {len(names)} parts")
    return [folder / name for name in names]


def read_header(path: Path) -> dict[str, Weight]:
    """Reads the header of a safetensors file → its weights, by name.

    Raises:
        ValueError: it is not a safetensors file, or cut off; one sentence.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            return {name: Weight(tuple(one.get_shape()), str(one.get_dtype())) for name, one in slices.items()}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"model.path: {path} cannot be read: {error} (not safetensors, or cut off)") from None


def check_weights(folder: Path) -> None:
    """Checks that all weights exist, in complete files, with types that can be trained.

    Raises:
        ValueError: a check fails; one sentence.
    """
    headers = {path: read_header(path) for path in weight_paths(folder)}
    for path, weights in headers.items():
        for name, weight in weights.items():
            if weight.dtype not in _TRAINABLE and not name.endswith(_MAY_BEMODEL_WEIGHTS_NUMBERS):
                raise ValueError(
                    f"model.path: {name} in {path} is of type {weight.dtype} (quantised?), which cannot be trained;"
                    f" allowed: {', '.join(_TRAINABLE)}"
                )
    if (folder / MODEL_WEIGHTS).is_file():
        return
    for name, part in read_object(folder / _INDEX)["weight_map"].items():
        if name not in headers[folder / part]:
            raise ValueError(f"model.path: {folder / part} lacks {name}, which {_INDEX} says it holds")
