"""A policy of a checkpoint as folders that transformers and peft load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllib_ragen.models.folder import model_folder
from rllib_ragen.starpo.checkpoint.adapter_base import AdapterBase, weights_fingerprint
from rllib_ragen.starpo.checkpoint.layout import module_files
from rllib_ragen.starpo.checkpoint.manifest import read_manifest
from rllib_ragen.types import DEFAULT_MODULE


@dataclass(frozen=True)
class SavedPolicy:
    """A policy on disk."""

    folder: Path
    """A transformers folder, with the tokenizer."""
    adapter: Path | None = None
    """A peft folder on top of it."""


def saved_policy(checkpoint: Path, module_id: str | None = None) -> SavedPolicy:
    """Finds a policy of a checkpoint; of adapters, also the model that they belong to.

    Args:
        checkpoint: its folder.
        module_id: which policy; None: the only one, or the one that learns beside earlier copies of itself.

    Raises:
        ValueError: no complete checkpoint, no such policy, or adapters whose model is gone; one sentence.
    """
    manifest = read_manifest(checkpoint)
    chosen = module_id or main_policy(manifest)
    held: list[str] = manifest["modules"]
    if chosen is None:
        raise ValueError(f"{checkpoint} holds the policies {', '.join(held)}: name one, as {checkpoint / held[0]}")
    if chosen not in held:
        raise ValueError(f"the checkpoint {checkpoint} has no policy {chosen!r}; it has {', '.join(held)}")
    files = module_files(checkpoint, chosen)
    if manifest["adapter_base"] is None:
        return SavedPolicy(files.policy)
    return SavedPolicy(_base_folder(files.adapter, manifest["adapter_base"], manifest["config"]), files.adapter)


def main_policy(manifest: Mapping[str, Any]) -> str | None:
    """Names the policy that a checkpoint is about: its only one, or the one that learns in a league; None: several."""
    held: list[str] = manifest["modules"]
    if len(held) == 1:
        return held[0]
    return DEFAULT_MODULE if DEFAULT_MODULE in held else None


def _base_folder(adapter: Path, base: AdapterBase, config: Mapping[str, Any]) -> Path:
    """Returns the model of the adapters: where it was, or where this installation has the one of that name."""
    recorded = Path(base["folder"])
    for folder in (recorded, model_folder(config["model"]["path"])):
        if folder.is_dir() and weights_fingerprint(folder) == base["fingerprint"]:
            return folder
    raise ValueError(f"{adapter}: the model of its adapters is not (or no longer) in {str(recorded)!r}")
