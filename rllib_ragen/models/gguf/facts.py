"""What a GGUF file says of its model, and whether transformers' reader takes all of it over."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import GGUFReader

_NORMS = ("attn_norm", "ffn_norm")
_MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
_LAYER = tuple(f"{name}.weight" for name in (*_NORMS, *_MATRICES))
LAYERS = {
    "llama": _LAYER,
    "qwen2": (*_LAYER, "attn_q.bias", "attn_k.bias", "attn_v.bias"),
    "qwen3": (*_LAYER, "attn_q_norm.weight", "attn_k_norm.weight"),
}
"""Architecture → tensors of each of its layers, all of which must be there, and no other: what transformers' reader
does not know it drops without a word."""
_OUTER = ("token_embd.weight", "output_norm.weight")
_HEAD = "output.weight"
"""Output matrix; a file without it ties the head to the embedding."""
_ENDS = ("eos", "eot", "eom")
"""Tokens that end what is generated: of the text, of a turn, of a message (`tokenizer.ggml.…_token_id`)."""


@dataclass(frozen=True)
class Facts:
    """What is needed beside what transformers reads."""

    num_rows: int
    """Rows of the embedding: the vocabulary, padding included."""
    head_dim: int | None
    """Width of an attention head, if it is stated."""
    end_token_ids: list[int]
    """Tokens that end a reply, the file's EOS first."""
    adds_bos: bool
    """Whether plain text begins with the BOS token."""
    pre_tokenizer: str
    """Name of the rule that cuts text before its tokens are looked for; empty: none is stated."""
    is_byte_level: bool
    """Whether tokens are byte-level BPE (as GPT-2's); else SentencePiece's."""


def read_facts(file: Path) -> Facts:
    """Returns what a GGUF file says of its model.

    Raises:
        ValueError: it is damaged, of another family, or says what would be lost; one sentence.
    """
    try:
        reader = GGUFReader(str(file))
        fields: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
        shapes = {tensor.name: [int(size) for size in tensor.shape] for tensor in reader.tensors}
    except Exception as error:
        # It reads numbers out of a memory map: a torn file brings about any error of NumPy's, or none of its own.
        raise ValueError(f"model.path: {file} cannot be read: {error} (cut off, or no whole GGUF file)") from None
    family = fields.get("general.architecture")
    if family not in LAYERS:
        raise ValueError(f"model.path: {file} holds a model of architecture {family!r}; allowed: {', '.join(LAYERS)}")
    if int(fields.get("split.count", 1)) > 1:
        raise ValueError(f"model.path: {file} is a part of a model; merge the parts (llama-gguf-split --merge)")
    scaling = fields.get(f"{family}.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in shapes:
        raise ValueError(
            f"model.path: {file} scales its positions (RoPE scaling), which would be lost in the conversion; give the"
            " model's transformers folder"
        )
    _check_tensors(file, set(shapes), family, int(fields.get(f"{family}.block_count", 0)))
    _check_tokens(file, fields, shapes["token_embd.weight"][1])
    ends = [fields.get(f"tokenizer.ggml.{end}_token_id") for end in _ENDS]
    length = fields.get(f"{family}.attention.key_length")
    return Facts(
        num_rows=shapes["token_embd.weight"][1],
        head_dim=None if length is None else int(length),
        end_token_ids=list(dict.fromkeys(int(end) for end in ends if end is not None)),
        adds_bos=bool(fields.get("tokenizer.ggml.add_bos_token", False)),
        pre_tokenizer=str(fields.get("tokenizer.ggml.pre", "")),
        is_byte_level=fields["tokenizer.ggml.model"] == "gpt2",
    )


def _check_tensors(file: Path, names: set[str], family: str, num_layers: int) -> None:
    wanted = {*_OUTER, *(f"blk.{layer}.{name}" for layer in range(num_layers) for name in LAYERS[family])}
    if missing := sorted(wanted - names):
        raise ValueError(f"model.path: {file} lacks {missing[0]} of a {family} model of {num_layers} layers")
    if others := sorted(names - wanted - {_HEAD}):
        raise ValueError(
            f"model.path: {file} has {others[0]}, which a {family} model has not, and which would be lost; give the"
            " model's transformers folder"
        )


def _check_tokens(file: Path, fields: dict[str, Any], num_rows: int) -> None:
    model, tokens = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.tokens")
    if model not in ("gpt2", "llama") or not isinstance(tokens, list):
        raise ValueError(f"model.path: {file} holds a tokenizer {model!r}; allowed: gpt2 (byte-level BPE), llama")
    if len(tokens) > num_rows:
        raise ValueError(f"model.path: {file} has {len(tokens)} tokens and an embedding of {num_rows}")
    for end in (*_ENDS, "bos", "padding", "unknown"):
        found = fields.get(f"tokenizer.ggml.{end}_token_id", 0)
        if not 0 <= int(found) < len(tokens):
            raise ValueError(f"model.path: {file} says that {end}_token_id is {found}, of {len(tokens)} tokens")
