"""What safetensors files say of themselves: names, shapes and types of weights, without reading them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from rllib_ragen.models.folder_files import MODEL_WEIGHTS, read_object

_INDEX = "model.safetensors.index.json"
_TRAINABLE = ("F32", "F16", "BF16", "F64")
"""Types that are trained in float32 without losing what they hold; F64 is rounded as any loader does."""
_MAY_BEMODEL_WEIGHTS_NUMBERS = ("position_ids", ".bias", "masked_bias")
"""Ends of names of masks and positions that old checkpoints hold; quantisation leaves biases as they are."""


class Weight(NamedTuple):
    """One entry of a safetensors header."""

    shape: tuple[int, ...]
    dtype: str


def weight_paths(folder: Path) -> list[Path]:
    """Returns the files that transformers reads a model's weights from.

    Raises:
        ValueError: there are none, or a part that the index names is missing; one sentence.
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
    """Returns the weights in a safetensors file, by name.

    Raises:
        ValueError: it is none, or cut off; one sentence.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            return {name: Weight(tuple(one.get_shape()), str(one.get_dtype())) for name, one in slices.items()}
    except (SafetensorError, OSError) as error:
        raise ValueError(f"model.path: {path} cannot be read: {error} (not safetensors, or cut off)") from None


def check_weights(folder: Path) -> None:
    """Checks that all weights are there, in files that are whole, of types that can be trained.

    Raises:
        ValueError: they are not; one sentence.
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
