"""Checks that transformers can load a model folder as a trainable causal LM with its tokenizer; reads no weight."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.models.attention import ATTENTION
from rllib_ragen.models.folder import position_limit
from rllib_ragen.models.folder_files import read_object, token_ids
from rllib_ragen.models.load import load_config, load_tokenizer, weightless_model


def check_model(folder: Path, max_context_tokens: int) -> None:
    """Checks architecture, lengths, weights, vocabulary and end-of-text tokens of an existing folder.

    Raises:
        ConfigError: one sentence that names the key.
    """
    stamps = tuple(sorted((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in folder.iterdir()))
    try:
        _check(folder, max_context_tokens, stamps)
    except ConfigError:
        raise
    except ValueError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(("model.", "rollout.")) else f"model.path: {text}") from None


@lru_cache(maxsize=64)
def _check(folder: Path, max_context_tokens: int, stamps: tuple[tuple[str, int, int], ...]) -> None:
    config = load_config(folder)
    _check_architecture(folder, config)
    _check_lengths(config.get_text_config().to_dict(), max_context_tokens)
    model = _check_weights(folder)
    _check_vocabulary(folder, load_tokenizer(folder), model)


def _check_architecture(folder: Path, config: Any) -> None:
    causal = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    named = getattr(config, "architectures", None) or []
    if config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or (named and not causal & set(named)):
        what = ", ".join(map(str, named)) or config.model_type
        raise ConfigError(f"model.path: {what} in {folder} is no causal language model; allowed are …ForCausalLM")
    sees_ahead = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if getattr(config, "is_encoder_decoder", False) or sees_ahead:
        raise ConfigError(
            f"model.path: the {config.model_type} model in {folder} sees tokens ahead (an encoder); allowed: decoders"
        )


def _check_lengths(config: dict[str, Any], max_context_tokens: int) -> None:
    length = position_limit(config)
    if length is not None and max_context_tokens > length:
        raise ConfigError(
            f"rollout.max_context_tokens={max_context_tokens} is more than the model's length of {length}"
        )
    kinds = config.get("layer_types")
    if kinds is None:
        slides = bool(config.get("sliding_window")) and config.get("use_sliding_window", True)
        windows = {"sliding_window": slides}
    else:
        windows = {"sliding_window": "sliding_attention" in kinds, "attention_chunk_size": "chunked_attention" in kinds}
    for key, used in windows.items():
        window = config.get(key)
        if used and isinstance(window, int) and window < max_context_tokens:
            raise ConfigError(
                f"rollout.max_context_tokens={max_context_tokens} is more than the model attends to ({key}={window} in"
                f" its config.json): beyond it the start of a trajectory is forgotten; allowed: 8 to {window}"
            )


def _check_weights(folder: Path) -> PreTrainedModel:
    model, misfits = weightless_model(folder, ATTENTION)
    for kind, told in (("missing_keys", "lacks"), ("mismatched_keys", "has in another shape")):
        if names := sorted(misfits.get(kind, ())):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ConfigError(
                f"model.path: {folder} {told} the weight {names[0]}{more}, of which config.json makes a"
                f" {type(model).__name__}"
            )
    return model


def _check_vocabulary(folder: Path, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> None:
    embedding: Any = model.get_input_embeddings()
    rows = int(embedding.weight.shape[0])
    known = tokenizer.get_vocab()
    token = max(known, key=lambda name: known[name], default="")
    if not known or known[token] >= rows:
        what = f"has the token {token!r} with the id {known[token]}" if known else "has no tokens"
        raise ConfigError(
            f"model.path: the tokenizer in {folder} {what}, but the model embeds {rows} tokens (0 to {rows - 1}): they"
            " do not belong together"
        )
    path = folder / "generation_config.json"
    stops = token_ids(read_object(path).get("eos_token_id")) if path.is_file() else []
    for stop in stops or []:
        if stop >= rows:
            raise ConfigError(
                f"model.path: eos_token_id={stop} in {path} is beyond the model's {rows} tokens (0 to {rows - 1})"
            )
