"""Adam's moments by parameter name: the same for any number of learners, in the form of safetensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from rllib_ragen.models.fsdp import gathered, like
from rllib_ragen.models.weight_arrays import WeightState, from_array, to_array


def optimizer_state(optimizer: torch.optim.Optimizer, module: nn.Module) -> WeightState:
    """Returns copies `{"<moment>/<parameter name>": array}` for every parameter that has been stepped.

    A collective call if the weights are sharded: the first learner gets the moments.
    """
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    moments = {
        f"{moment}/{names[parameter]}": torch.as_tensor(value)
        for parameter, own in optimizer.state.items()
        for moment, value in own.items()
    }
    return {name: to_array(tensor).copy() for name, tensor in gathered(moments)}


def load_optimizer_state(optimizer: torch.optim.Optimizer, module: nn.Module, state: Mapping[str, object]) -> None:
    """Replaces the optimiser's moments by `state`; its settings, such as the learning rate, stay.

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
        value = from_array(array).clone()  # type: ignore[arg-type]
        # The step count, too: fused Adam wants it where the parameter is.
        own_value = like(parameter, value) if value.shape == parameter.shape else value.to(parameter.device)
        optimizer.state[parameter][moment] = own_value
