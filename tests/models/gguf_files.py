"""Small models as transformers has them, and the GGUF files that llama.cpp's converter would make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX as QWEN2

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Of Llama 3's tokenizer.json."""
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXTS = [
    "Room 12: go up, then 345 left, 12 12 34 34",
    "It's a box.  There is no way  12 left.",
    "up up down left right",
]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FAMILIES: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}
_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.layers": "blk",
}  # fmt: skip


def bpe(pre: str) -> Tokenizer:
    """Byte-level BPE of some 300 tokens; text is cut as in the tokenizer.json of models of the rule `pre`."""
    tokenizer = Tokenizer(models.BPE())
    as_gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = {
        "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), as_gpt2]),
        "qwen2": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2), "isolated"), bytes_only]),
        "llama-bpe": pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), bytes_only]),
        "gpt-2": as_gpt2,
    }[pre]
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS * 4, trainer)
    return tokenizer


def model(family: str, *, tied: bool, rows: int, head_dim: int = 16) -> PreTrainedModel:
    """A random model with what may be lost: grouped heads, an unusual RoPE base, biases off 0, norms off 1."""
    config_class, model_class = FAMILIES[family]
    config = config_class(
        hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=head_dim, vocab_size=rows, max_position_embeddings=512, tie_word_embeddings=tied, rms_norm_eps=3e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 54_321.0}, initializer_range=0.2,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    made: PreTrainedModel = model_class(config).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return made


def write(
    path: Path, source: PreTrainedModel, tokenizer: Tokenizer, type_: Type = Type.F32, *, pre: str, **more: Any
) -> None:
    """Writes the GGUF file.

    Args:
        path: the file.
        source: the model; of matrices what `type_` holds of them is written.
        tokenizer: its tokenizer.
        type_: of matrices.
        pre: `tokenizer.ggml.pre`.
        more: further fields, `.` as `__`; integers.
    """
    config = source.config
    writer = GGUFWriter(str(path), config.model_type)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types([3 if token in SPECIAL else 1 for token, _ in vocabulary])
    writer.add_token_merges([" ".join(pair) for pair in _merges(tokenizer)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template(TEMPLATE)
    for name, value in more.items():
        add = writer.add_string if isinstance(value, str) else writer.add_uint32
        add(name.replace("__", "."), value)
    for name, weight in source.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        _add(writer, source, name, weight, type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def as_stored(source: PreTrainedModel, type_: Type) -> PreTrainedModel:
    """The model with matrices rounded to what `type_` holds."""
    state = {
        name: torch.from_numpy(gguf.dequantize(gguf.quantize(weight.numpy(), type_), type_).copy())
        if weight.dim() == 2
        else weight
        for name, weight in source.state_dict().items()
    }
    rounded: PreTrainedModel = type(source)(source.config).eval()
    rounded.load_state_dict(state)
    return rounded


def _add(writer: GGUFWriter, source: PreTrainedModel, name: str, weight: torch.Tensor, type_: Type) -> None:
    data = weight.numpy()
    if source.config.model_type == "llama" and ("q_proj" in name or "k_proj" in name):
        heads = source.config.num_attention_heads if "q_proj" in name else source.config.num_key_value_heads
        # llama.cpp turns neighbours, transformers halves (convert_hf_to_gguf.py, LlamaModel.permute).
        data = data.reshape(heads, 2, data.shape[0] // heads // 2, *data.shape[1:]).swapaxes(1, 2).reshape(data.shape)
    for theirs, ours in _NAMES.items():
        name = name.replace(theirs, ours)
    if data.ndim == 2:
        writer.add_tensor(name, gguf.quantize(np.ascontiguousarray(data), type_), raw_dtype=type_)
    else:
        writer.add_tensor(name, data.astype(np.float32))


def _merges(tokenizer: Tokenizer) -> list[list[str]]:
    return [list(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
