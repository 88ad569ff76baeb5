"""Models that are named as on the Hugging Face Hub, with the shapes that their config.json states."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


def _qwen2(hidden: int, layers: int, heads: int, kv_heads: int, inner: int, tied: bool = True) -> dict[str, Any]:
    return {
        "model_type": "qwen2", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "intermediate_size": inner, "vocab_size": 151_936 if tied else 152_064,
        "tie_word_embeddings": tied, "max_position_embeddings": 32_768,
    }  # fmt: skip


def _smollm2(hidden: int, layers: int, heads: int, kv_heads: int, inner: int) -> dict[str, Any]:
    return {
        "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "intermediate_size": inner, "vocab_size": 49_152,
        "tie_word_embeddings": True, "max_position_embeddings": 8_192,
    }  # fmt: skip


SMOLLM2_ON_THE_HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""What `smollm2` is called there."""
HUB_MODELS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "Qwen/Qwen2.5-0.5B-Instruct": _qwen2(896, 24, 14, 2, 4_864),
        "Qwen/Qwen2.5-1.5B-Instruct": _qwen2(1_536, 28, 12, 2, 8_960),
        "Qwen/Qwen2.5-3B-Instruct": _qwen2(2_048, 36, 16, 2, 11_008),
        "Qwen/Qwen2.5-7B-Instruct": _qwen2(3_584, 28, 28, 4, 18_944, tied=False),
        SMOLLM2_ON_THE_HUB: _smollm2(576, 30, 9, 3, 1_536),
        "HuggingFaceTB/SmolLM2-360M-Instruct": _smollm2(960, 32, 15, 5, 2_560),
        "HuggingFaceTB/SmolLM2-1.7B-Instruct": _smollm2(2_048, 24, 32, 32, 8_192),
    }
)
"""Values of `model.path` that are names; a run takes them from the Hub's cache on this machine, a dry run needs only
their shapes. Keys are those of transformers' configs."""
