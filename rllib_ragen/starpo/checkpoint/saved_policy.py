"""A checkpoint's policy as folders for transformers and peft."""

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
    """Finds a policy of a checkpoint; for adapters also their base model.

    Args:
        checkpoint: folder of the checkpoint.
        module_id: id of the policy; None: the only one, or the trained one of a league.

    Raises:
        ValueError: no complete checkpoint, no such policy, or adapters without their base model; one sentence.
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
    """Returns the id of a checkpoint's only policy, or of the trained one of a league; None: several."""
    held: list[str] = manifest["modules"]
    if len(held) == 1:
        return held[0]
    return DEFAULT_MODULE if DEFAULT_MODULE in held else None


def _base_folder(adapter: Path, base: AdapterBase, config: Mapping[str, Any]) -> Path:
    """Returns the folder of the adapters' base model: the old one, or that of the same name in this installation."""
    recorded = Path(base["folder"])
    for folder in (recorded, model_folder(config["model"]["path"])):
        if folder.is_dir() and weights_fingerprint(folder) == base["fingerprint"]:
            return folder
    raise ValueError(f"{adapter}: the model of its adapters is not (or no longer) in {str(recorded)!r}")
