"""Weights as numpy arrays that keep their type. numpy has no bfloat16, which becomes uint16 with the same bits."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rllib_ragen.faults.private_names.of_torch import storage_key
from rllib_ragen.models.fsdp import like, own_part

WeightArray = npt.NDArray[Any]
WeightState = dict[str, WeightArray]


def to_array(tensor: torch.Tensor) -> WeightArray:
    """Returns `tensor` as an array: uint16 for bfloat16, else the same type. On a CPU it shares the tensor's memory."""
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    array: WeightArray = tensor.numpy()
    return array


def from_array(array: WeightArray) -> torch.Tensor:
    """Inverts `to_array`; the tensor shares the array's memory and must not be written to."""
    with warnings.catch_warnings():
        # Arrays from Ray's object store are read-only, which torch cannot express.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        if array.dtype == np.uint16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)


def copy_into(own: Mapping[str, torch.Tensor], state: Mapping[str, WeightArray]) -> None:
    """Copies every entry of `state` into the tensor of that name, casting to its type.

    Raises:
        ValueError: an unknown name, or another shape; nothing has been changed then.
    """
    for name, array in state.items():
        if name not in own:
            raise ValueError(f"weight {name!r} is unknown to this module")
        if tuple(own[name].shape) != array.shape:
            raise ValueError(f"weight {name!r} has shape {list(array.shape)}, the module wants {list(own[name].shape)}")
    with torch.no_grad():
        for name, array in state.items():
            own[name].copy_(like(own[name], from_array(array)))


def without_twins(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns `state` with every tensor once: tied weights (embedding and output layer) keep only their first name."""
    first: dict[tuple[object, ...], str] = {}
    for name, tensor in state.items():
        first.setdefault((storage_key(own_part(tensor)), tensor.storage_offset(), tensor.shape), name)
    return {name: state[name] for name in first.values()}
