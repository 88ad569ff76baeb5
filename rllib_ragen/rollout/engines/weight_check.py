"""Names and shapes of a model's weights, checked before an update touches anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class WeightSpec:
    """Names and shapes of a model's weights."""

    shapes: Mapping[str, torch.Size]
    """Shape of every entry of the state dict."""
    twins: Mapping[str, str]
    """First name of the same tensor, by tied name. An update needs only one name of each tensor."""

    @classmethod
    def of(cls, model: nn.Module) -> WeightSpec:
        """Returns the spec of a transformers model; it may be on the meta device."""
        first: dict[int, str] = {}
        twins = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            twins[name] = first.setdefault(id(parameter), name)
        return cls({name: tensor.shape for name, tensor in model.state_dict().items()}, twins)

    def check(self, given: Mapping[str, torch.Tensor]) -> None:
        """Raises ValueError, naming the first bad entry, if `given` is not exactly one set of weights."""
        unknown = sorted(set(given) - set(self.shapes))
        if unknown:
            raise ValueError(f"weights hold {unknown[0]!r}, which the model has not ({len(unknown)} such)")
        covered = {self.twins.get(name, name) for name in given}
        missing = [name for name in self.shapes if self.twins.get(name, name) not in covered]
        if missing:
            raise ValueError(f"weights lack {missing[0]!r} ({len(missing)} missing)")
        for name, tensor in given.items():
            if tensor.shape != self.shapes[name]:
                wanted = list(self.shapes[name])
                raise ValueError(f"weight {name!r} has shape {list(tensor.shape)}, the model wants {wanted}")
