"""Adam's moments by parameter name: the same whatever the number of learners, and ready for safetensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from rllib_ragen.models.wire import WireState, from_wire, to_wire


def optimizer_state(optimizer: torch.optim.Optimizer, module: nn.Module) -> WireState:
    """`{"<moment>/<parameter name>": array}` of every parameter that has been stepped; copies."""
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    return {
        f"{moment}/{names[parameter]}": to_wire(torch.as_tensor(value)).copy()
        for parameter, moments in optimizer.state.items()
        for moment, value in moments.items()
    }


def load_optimizer_state(optimizer: torch.optim.Optimizer, module: nn.Module, state: Mapping[str, object]) -> None:
    """Replaces the optimiser's moments by `state`; learning rate and the like stay as configured.

    Raises:
        ValueError: a parameter that the optimiser does not have.
    """
    own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    parameters = {name: p for name, p in module.named_parameters() if id(p) in own}
    optimizer.state.clear()
    for key, array in state.items():
        moment, name = key.split("/", 1)
        if name not in parameters:
            raise ValueError(f"the optimiser state holds {name!r}, which this optimiser does not train")
        parameter = parameters[name]
        # The step count, too: fused Adam wants it where the parameter is.
        optimizer.state[parameter][moment] = from_wire(array).clone().to(parameter.device)  # type: ignore[arg-type]
