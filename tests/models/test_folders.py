"""Model folders as they are found: weights in parts, heads tied or not, vocabularies padded, several EOS ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.check_model import check_model
from rllib_ragen.models.folder import check_model_folder
from rllib_ragen.models.load import load_model
from rllib_ragen.models.weight_headers import weight_paths
from tests.models import gguf_files as small


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_weights_in_parts_and_a_padded_vocabulary_load_as_they_were_saved(
    tmp_path: Path, family: str, tied: bool
) -> None:
    tokenizer = small.bpe("qwen2")
    made: Any = small.model(family, tied=tied, rows=tokenizer.get_vocab_size() + 64)
    made.generation_config.eos_token_id = [2, 0]
    made.save_pretrained(tmp_path, max_shard_size="60KB")
    plain = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    plain.chat_template = small.TEMPLATE
    plain.save_pretrained(tmp_path)

    folder = check_model_folder(str(tmp_path), 512)
    check_model(folder, 512)
    assert len(weight_paths(folder)) > 2
    loaded = load_model(folder, torch.float32)
    ids = torch.tensor([tokenizer.encode(small.TEXTS[0]).ids])
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, made(ids).logits)
    assert loaded(ids).logits.shape[-1] == tokenizer.get_vocab_size() + 64
    assert ChatFormat.from_folder(folder).stop_token_ids == (2, 0)
