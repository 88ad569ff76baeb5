"""The base model of a checkpoint's adapters, without which they are useless. Imports no torch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypedDict

from rllib_ragen.models.lora_settings import LoraSettings

_SAMPLES = 256
"""Samples of a weight file in its fingerprint: chosen freely; another fine-tuning differs in nearly all of them."""
_SAMPLE_BYTES = 4096
"""Bytes of a sample: a page of the file system."""


class AdapterBase(TypedDict):
    """The base model of a checkpoint's adapters."""

    folder: str
    """The model folder at the time of the checkpoint; it may have moved."""
    fingerprint: str
    """Checksum of the model's weights, which must not change."""
    rank: int
    alpha: float


def adapter_base(source: Path, settings: LoraSettings) -> AdapterBase:
    """Describes the model folder `source` as the base of adapters with these settings."""
    return AdapterBase(
        folder=str(source.resolve()),
        fingerprint=weights_fingerprint(source),
        rank=settings["rank"],
        alpha=settings["alpha"],
    )


def check_adapter_base(saved: AdapterBase | None, source: Path, settings: LoraSettings | None) -> None:
    """Checks that a checkpoint's adapters (None: it has all weights) fit a run with `settings` on the model `source`.

    Raises:
        ValueError: they do not; one sentence.
    """
    if saved is None or settings is None:
        if saved is not None:
            raise ValueError(f"learner.lora_rank=null, but the checkpoint holds adapters; allowed: {saved['rank']}")
        if settings is not None:
            raise ValueError(
                f"learner.lora_rank={settings['rank']}, but the checkpoint holds all weights and no adapters;"
                " allowed: null"
            )
        return
    for key, value in (("rank", settings["rank"]), ("alpha", settings["alpha"])):
        if saved[key] != value:  # type: ignore[literal-required]
            raise ValueError(f"learner.lora_{key}={value}, but the checkpoint's adapters have {saved[key]}")  # type: ignore[literal-required]
    if saved["fingerprint"] != weights_fingerprint(source):
        raise ValueError(
            f"model.path: the checkpoint's adapters are of the model that was in {saved['folder']!r}; the weights in"
            f" {str(source)!r} are others"
        )


def weights_fingerprint(folder: Path) -> str:
    """Computes SHA-256 over size, beginning and 256 evenly spaced samples of every safetensors file.

    It distinguishes models, and fine-tunings of one model, in milliseconds for any size.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        digest.update(f"{size} ".encode())
        with path.open("rb") as file:
            for k in range(_SAMPLES):
                file.seek(max(0, size - _SAMPLE_BYTES) * k // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()
