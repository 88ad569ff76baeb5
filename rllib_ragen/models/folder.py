"""The model folder: where it is, and whether it can be used at all. Imports nothing heavy."""

from __future__ import annotations

import json
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.config.schema import EMBEDDED_MODEL

GAME_MODEL_LENGTH = 4_096
"""Tokens that the small model of a game takes; it is made when it is first needed (models.tiny.game_model)."""
_EMBEDDED = Path(__file__).parent / "tiny" / "checkpoint"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")


def model_folder(path: str) -> Path:
    """Returns the folder that `model.path` names: the embedded model's for `tiny`."""
    return _EMBEDDED if path == EMBEDDED_MODEL else Path(path)


def check_model_folder(path: str, max_context_tokens: int, *, in_game: bool = False) -> Path:
    """Returns the folder, if it holds a model with tokenizer that takes `max_context_tokens`.

    `in_game`: `tiny` means the small model of a game. It need not be there yet: the embedded one stands in for it here.

    Raises:
        ValueError: it does not; one sentence that names the key.
    """
    folder = model_folder(path)
    if not folder.is_dir():
        raise ValueError(f"model.path: there is no folder {str(folder)!r}; allowed: {EMBEDDED_MODEL}, or a folder")
    if not (folder / "config.json").is_file():
        raise ValueError(f"model.path: the folder {str(folder)!r} holds no transformers model (no config.json)")
    if not any(folder.glob("*.safetensors")):
        raise ValueError(f"model.path: the folder {str(folder)!r} holds no weights as safetensors")
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise ValueError(f"model.path: the folder {str(folder)!r} holds no tokenizer ({', '.join(_TOKENIZERS)})")
    length = GAME_MODEL_LENGTH if in_game and path == EMBEDDED_MODEL else _max_length(folder)
    if length is not None and max_context_tokens > length:
        raise ValueError(f"rollout.max_context_tokens={max_context_tokens} is more than the model's length of {length}")
    return folder


def language_config(folder: Path) -> Tree:
    """Returns config.json of a model folder; of a model of several kinds of input, the language model's part."""
    config: Tree = json.loads((folder / "config.json").read_text())
    part: Tree = config.get("text_config", config)
    return part


def _max_length(folder: Path) -> int | None:
    length = language_config(folder).get("max_position_embeddings")
    return None if length is None else int(length)
