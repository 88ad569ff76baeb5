"""Checks of the adapters that a config asks for, without loading the model."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from rllib_ragen.config.errors import ConfigError, nearest
from rllib_ragen.config.schema import LearnerSection
from rllib_ragen.models.lora_settings import is_named
from rllib_ragen.models.weight_headers import read_header, weight_paths

_IN_A_BLOCK = re.compile(r"(.*\.\d+\..*)\.weight")
"""Names of weights of the model's numbered blocks, without embedding and head."""


def check_lora(learner: LearnerSection, folder: Path) -> None:
    """Checks that peft is installed and that rank and targets fit the model.

    Args:
        learner: the settings of the update.
        folder: folder of the model; only names and shapes of its weights are read.

    Raises:
        ConfigError: peft is missing, or rank or targets do not fit the model.
    """
    rank = learner.lora_rank
    if rank is None:
        return
    if find_spec("peft") is None:
        raise ConfigError(
            f"learner.lora_rank={rank} needs the library peft: pip install 'rllib_ragen[lora]'; without it only null is"
            " allowed"
        )
    layers = linear_layers(folder)
    names = sorted({layer.rsplit(".", 1)[-1] for layer in layers})
    for target in learner.lora_targets or []:
        if not any(is_named(layer, target) for layer in layers):
            raise ConfigError(f"learner.lora_targets: no linear layer is called {target!r}; {nearest(target, names)}")
    chosen = learner.lora_targets or names
    limit = max(min(shape) for layer, shape in layers.items() if any(is_named(layer, target) for target in chosen))
    if rank > limit:
        raise ConfigError(
            f"learner.lora_rank={rank} is not low: no matrix that it is for has a higher rank than {limit};"
            f" allowed: 1 to {limit}, or null for all weights"
        )


def linear_layers(folder: Path) -> dict[str, tuple[int, ...]]:
    """Returns the shape of every weight matrix in the blocks of the model in `folder`, by the name of its layer.

    Raises:
        ConfigError: a file that is not a safetensors file, or there is no such matrix.
    """
    found: dict[str, tuple[int, ...]] = {}
    for path in weight_paths(folder):
        shapes = {name: weight.shape for name, weight in read_header(path).items() if len(weight.shape) == 2}
        matches = {_IN_A_BLOCK.fullmatch(name): shape for name, shape in shapes.items()}
        found |= {match[1]: shape for match, shape in matches.items() if match}
    if not found:
        raise ConfigError(f"learner.lora_rank: the model in {folder} has no linear layers for adapters; allowed: null")
    return found
