"""A GGUF file → a plain transformers folder in float32: transformers reads the weights, and its files are written."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from rllib_ragen.models.gguf.facts import read_facts
from rllib_ragen.models.gguf.tokenizer import check_written, write_tokenizer
from rllib_ragen.models.load import empty_model, first_line


def convert(file: Path, out: Path) -> None:
    """Writes config.json, weights as safetensors, the tokenizer with its chat template, and every EOS id.

    Quantised weights become the float32 numbers that they stand for, so that they can be trained.

    Args:
        file: GGUF, of the Llama or Qwen family.
        out: an empty folder.

    Raises:
        ValueError: the file is damaged, or says what transformers cannot hold; one sentence.
        OSError: `out` cannot be written.
    """
    facts = read_facts(file)
    write_tokenizer(file, facts, out)
    try:
        config = AutoConfig.from_pretrained(
            str(file.parent), gguf_file=file.name, local_files_only=True, trust_remote_code=False
        )
        # What the file's own numbers say: its vocabulary may be padded, and its heads of any width.
        config.vocab_size = facts.num_rows
        if facts.head_dim is not None:
            config.head_dim = facts.head_dim
        # Progress bars of some seconds, which cannot be switched off.
        with redirect_stderr(StringIO()):
            read = AutoModelForCausalLM.from_pretrained(
                str(file.parent),
                gguf_file=file.name,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
            )
    except Exception as error:
        # transformers raises whatever a wrong number in the file brings about.
        raise ValueError(f"model.path: {file} cannot be converted: {first_line(error)}") from None
    # transformers does not save a model that it knows to be from GGUF: the same weights in a model of its own.
    config.dtype = torch.float32
    model: Any = empty_model(config)
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    ends = facts.end_token_ids
    model.generation_config = GenerationConfig(
        bos_token_id=config.bos_token_id,
        eos_token_id=ends[0] if len(ends) == 1 else ends or None,
        pad_token_id=config.pad_token_id,
    )
    with redirect_stderr(StringIO()):
        model.save_pretrained(str(out))
    check_written(file, facts, out)
