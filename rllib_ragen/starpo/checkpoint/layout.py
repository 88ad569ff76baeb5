"""Where everything lies in a checkpoint: safetensors and JSON, no pickle; the same for any number of learners.

    state.json                              counters, config, versions, checksums of all files; written last
    <module id>/policy/                     a plain transformers folder; or, of a run that trains adapters:
    <module id>/adapter/                    a peft folder; state.json says of which model
    <module id>/value_head.safetensors      if there is a critic
    <module id>/optimizer.safetensors       moments by optimiser and parameter name
    rllib_checkpoint.json                   for the error of RLlib's own Algorithm.from_checkpoint
    ahead.jsonl                             trajectories sampled for the next iteration, if there are any

All code that reads or writes a checkpoint gets its paths here. Imports nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STATE_FILE = "state.json"
AHEAD_FILE = "ahead.jsonl"
RLLIB_FILE = "rllib_checkpoint.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
"""Name of the weights in a peft folder."""


@dataclass(frozen=True)
class ModuleFiles:
    """Paths of one module's files in a checkpoint."""

    folder: Path

    @property
    def policy(self) -> Path:
        """The transformers folder with all weights."""
        return self.folder / "policy"

    @property
    def adapter(self) -> Path:
        """The peft folder."""
        return self.folder / "adapter"

    @property
    def value_head(self) -> Path:
        """The critic's weights."""
        return self.folder / "value_head.safetensors"

    @property
    def optimizer(self) -> Path:
        """The optimisers' moments."""
        return self.folder / "optimizer.safetensors"


def module_files(checkpoint: Path, module_id: str) -> ModuleFiles:
    """Returns the paths of a module's files."""
    return ModuleFiles(checkpoint / module_id)


def is_checkpoint(folder: Path) -> bool:
    """Returns whether the folder holds a complete checkpoint."""
    return (folder / STATE_FILE).is_file()
