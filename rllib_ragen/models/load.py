"""The only loader of model folders: transformers' files and safetensors, never the folder's own code.

If `trust_remote_code` is left out, transformers asks on the terminal whether the folder's code may run.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """Loads the tokenizer of a model folder.

    Raises:
        ValueError: there is no usable one; one sentence.
    """
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        # The Rust library raises plain Exceptions, and transformers whatever a wrong type brings about.
        raise ValueError(f"model folder {str(folder)!r} has no usable tokenizer: {first_line(error)}") from error
    return tokenizer


def load_config(folder: str | Path) -> Any:
    """Loads the model's config, with its architecture's defaults.

    Raises:
        ValueError: there is no usable one; one sentence.
    """
    try:
        return AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise ValueError(f"model folder {str(folder)!r} has no usable config.json: {first_line(error)}") from error


def load_model(
    folder: str | Path, dtype: torch.dtype, adapter: Path | None = None, *, attention: str | None = None
) -> PreTrainedModel:
    """Loads a causal LM with its weights from safetensors, on the CPU.

    Args:
        folder: folder of the model.
        dtype: type of the loaded weights.
        adapter: a peft folder to merge into them.
        attention: transformers' `attn_implementation`; None: its choice.
    """
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        str(folder),
        dtype=dtype,
        attn_implementation=attention,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
    )
    if adapter is None:
        return model
    from peft import PeftModel

    adapted = PeftModel.from_pretrained(
        model, str(adapter), local_files_only=True, use_safetensors=True, trust_remote_code=False
    )
    merged: PreTrainedModel = adapted.merge_and_unload()
    return merged


def empty_model(config: Any) -> PreTrainedModel:
    """Returns a model of `load_config`'s result without weights: only their names and shapes (meta device)."""
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return model


def weightless_model(folder: str | Path, attention: str | None = None) -> tuple[PreTrainedModel, dict[str, set[str]]]:
    """Makes the model of `load_model` on the meta device, without reading any weight → (model, mismatches).

    Mismatches: `missing_keys` of the model, `unexpected_keys` of the files, `mismatched_keys` with other shapes.

    Raises:
        ValueError: transformers cannot load it; one sentence.
    """
    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    # What does not fit is told by whoever asks, in a sentence and not in a table.
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    try:
        # With its loading info it is a pair, which its annotation does not say.
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            str(folder),
            device_map="meta",
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            attn_implementation=attention,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
        )
    except Exception as error:
        raise ValueError(f"model folder {str(folder)!r} holds no causal LM: {first_line(error)}") from error
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
    model, found = loaded
    return model, {name: {one if isinstance(one, str) else one[0] for one in keys} for name, keys in found.items()}


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
