"""Everything that can be checked before Ray, torch or a model is loaded, so that bad input costs seconds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from rllib_ragen.config import RunConfig
from rllib_ragen.config_checks import ConfigError
from rllib_ragen.rollout.engines.choose import EngineChoice, choose_engine

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")
_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")
_LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length")


def preflight(config: RunConfig) -> EngineChoice:
    """Checks model folder, engine and results folder; the engine that will sample.

    Raises:
        ConfigError: one sentence naming the key.
    """
    check_model(config)
    check_writable(config.results_dir)
    try:
        return choose_engine(
            config.rollout.engine,
            num_env_runners=config.rollout.num_env_runners,
            model_path=config.model.folder,
            on_gpu=config.rollout.num_gpus_per_env_runner > 0,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None


def check_model(config: RunConfig) -> None:
    """The model folder holds weights, tokenizer and chat template, and the model is long enough.

    Raises:
        ConfigError: it does not, or it is not.
    """
    folder = config.model.folder
    if not folder.is_dir():
        raise ConfigError(f"model.path: there is no folder {folder}; allowed: tiny, or a folder with a model")
    settings = _read_json(folder / "config.json")
    if settings is None:
        raise ConfigError(f"model.path: {folder} has no readable config.json, so it is no transformers model")
    if not any(folder.glob("*.safetensors")):
        raise ConfigError(f"model.path: {folder} has no weights (*.safetensors; other formats are not read)")
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise ConfigError(f"model.path: {folder} has no tokenizer ({', '.join(_TOKENIZER_FILES[:2])})")
    if not _has_chat_template(folder):
        raise ConfigError(f"model.path: the tokenizer in {folder} has no chat template ({_TEMPLATE_FILES[0]})")
    length = model_length(settings)
    wanted = config.rollout.max_context_tokens
    if length is not None and length < wanted:
        raise ConfigError(
            f"rollout.max_context_tokens={wanted} is longer than the model in {folder} can read; allowed: ≤ {length}"
        )


def model_length(settings: dict[str, Any]) -> int | None:
    """Tokens that a model can read, by its config.json; None if it does not say."""
    text = settings.get("text_config", settings)
    lengths = [text[key] for key in _LENGTH_KEYS if isinstance(text.get(key), int)]
    return min(lengths) if lengths else None


def check_writable(folder: Path) -> None:
    """Makes `folder` and writes to it once.

    Raises:
        ConfigError: that is not possible.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"results_dir: cannot write to {folder}: {error.strerror}") from None


def _has_chat_template(folder: Path) -> bool:
    if any((folder / name).is_file() for name in _TEMPLATE_FILES):
        return True
    return bool((_read_json(folder / "tokenizer_config.json") or {}).get("chat_template"))


def _read_json(path: Path) -> dict[str, Any] | None:
    """The object that a JSON file holds; None if there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
