"""The model folder: where it is, and whether its files are complete. Imports neither torch nor transformers.

Checks that need transformers are in check_model.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.config.hub_models import HUB_MODELS
from rllib_ragen.config.paths import EMBEDDED_MODEL, SMOLLM2
from rllib_ragen.models.folder_files import check_files, read_object
from rllib_ragen.models.gguf.kept import converted_folder, ensure_converted
from rllib_ragen.models.gguf.source import is_gguf
from rllib_ragen.models.weight_headers import check_weights

GAME_MODEL_LENGTH = 4_096
"""Context length in tokens of the small model of a game, which is made when it is first needed
(models.tiny.game_model): chosen freely.
"""
_EMBEDDED = Path(__file__).parent / "tiny" / "checkpoint"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
_LENGTHS = (
    *("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length"),
    *("max_seq_length", "seq_len", "max_target_positions"),
)
"""Config keys in which architectures keep their number of positions."""
_SCALED = ("linear", "dynamic", "yarn")
"""Kinds of RoPE scaling that multiply the original length by their factor; for others the config has the product."""


def model_folder(path: str) -> Path:
    """Returns the folder that `model.path` names: the embedded model's for `tiny`; of a model of the Hub that in the
    cache of this machine, if it is there (no network is asked); of a GGUF file what it is converted to, which need not
    be there before `check_model_folder`.
    """
    if is_gguf(path):
        return converted_folder(path)
    if path in HUB_MODELS:
        # Heavy for what most runs have no use for.
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(path, "config.json")
        return Path(found).parent if isinstance(found, str) else Path(path)
    return _EMBEDDED if path == EMBEDDED_MODEL else Path(path)


def check_model_folder(path: str, max_context_tokens: int, *, in_game: bool = False) -> Path:
    """Checks that the folder holds a model and tokenizer for `max_context_tokens` → the folder.

    A GGUF file is converted now, once a machine.

    `in_game`: `tiny` means the small model of a game, which need not exist yet: here the embedded one stands in for it.

    Raises:
        ValueError: it does not; one sentence that names the key.
    """
    folder = ensure_converted(path) if is_gguf(path) else model_folder(path)
    if path in HUB_MODELS and str(folder) == path:
        raise ValueError(
            f"model.path={path} is not in the Hugging Face cache of this machine; fetch it once (hf download {path}),"
            f" or give a folder (one of this name is ./{path})"
        )
    if not folder.is_dir():
        raise ValueError(
            f"model.path: there is no folder {str(folder)!r}; allowed: {EMBEDDED_MODEL}, {SMOLLM2}, a folder,"
            " or a GGUF file"
        )
    if not (folder / "config.json").is_file() and not (folder / "config.json").is_symlink():
        raise ValueError(
            f"model.path: the folder {str(folder)!r} holds no transformers model (no config.json){_hint(folder)}"
        )
    check_files(folder)
    check_weights(folder)
    if not any((folder / name).is_file() for name in _TOKENIZERS):
        raise ValueError(f"model.path: the folder {str(folder)!r} holds no tokenizer ({', '.join(_TOKENIZERS)})")
    config = language_config(folder)
    for key in ("quantization_config", "compression_config"):
        if config.get(key) or read_object(folder / "config.json").get(key):
            raise ValueError(
                f"model.path: the model in {str(folder)!r} is quantised ({key} in config.json), and such weights cannot"
                " be trained; allowed are floating-point weights"
            )
    length = GAME_MODEL_LENGTH if in_game and path == EMBEDDED_MODEL else position_limit(config)
    if length is not None and max_context_tokens > length:
        raise ValueError(f"rollout.max_context_tokens={max_context_tokens} is more than the model's length of {length}")
    return folder


def _hint(folder: Path) -> str:
    found = sorted(path.name for path in folder.iterdir() if is_gguf(str(path)))
    return f"; {found[0]} in it may be given itself" if found else ""


def language_config(folder: Path) -> Tree:
    """Reads config.json of a model folder; of a multimodal model, the language model's part.

    Raises:
        ValueError: it cannot be read; one sentence.
    """
    config = read_object(folder / "config.json")
    part = config.get("text_config", config)
    if not isinstance(part, dict):
        raise ValueError(f"model.path: text_config in {folder / 'config.json'} is no object")
    return part


def position_limit(config: Mapping[str, object]) -> int | None:
    """Returns the number of positions of a model, with RoPE scaling; None: its config has no limit.

    Raises:
        ValueError: a length or factor that is not a positive number.
    """
    stated: list[int] = []
    for key in _LENGTHS:
        value = config.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"model.path: {key}={value!r} in config.json is no number of positions")
        stated.append(value)
    if not stated:
        return None
    length = min(stated)
    ropes = [config.get(key) for key in ("rope_parameters", "rope_scaling")]
    nested = [rope for one in ropes if isinstance(one, dict) for rope in one.values() if isinstance(rope, dict)]
    return min([_stretched(rope, length) for rope in (*ropes, *nested) if isinstance(rope, dict)], default=length)


def _stretched(rope: Mapping[str, object], length: int) -> int:
    if rope.get("rope_type", rope.get("type")) not in _SCALED:
        return length
    stretched = 1.0
    for value in (rope.get("original_max_position_embeddings") or length, rope.get("factor")):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise ValueError(f"model.path: the rope scaling {dict(rope)!r} in config.json has no factor above 0")
        stretched *= value
    return int(stretched)
