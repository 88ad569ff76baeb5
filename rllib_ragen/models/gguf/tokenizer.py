"""The tokenizer of a GGUF file as transformers' files: transformers reads it, and what it leaves out is put right."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rllib_ragen.models.gguf.facts import Facts
from rllib_ragen.models.load import first_line, load_tokenizer

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_BY_ONE, _BY_THREE = rf"{_WORDS}|\p{{N}}{_REST}", rf"{_WORDS}|\p{{N}}{{1,3}}{_REST}"
_SPLITS = {
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _BY_ONE),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "smaug-bpe"), _BY_THREE),
}
"""`tokenizer.ggml.pre` → the pattern that cuts text: llama.cpp's rules (llama-vocab.cpp), which are those of the
models' own tokenizer.json."""
_AS_GPT2 = ("", "default", "gpt-2")
_DIGITS_FIRST = ("smollm",)
"""Rules that set every digit apart, and cut the rest as GPT-2 does."""
_NFC = ("qwen2",)
"""Rules of models whose text is composed (Unicode NFC) first."""
_SAMPLE = "Room 12: go up,  then 345 left.\n\n\tIt's é, 中文 ✓ — x² = y_1"
"""Text with what pre-tokenizers treat in different ways."""


def write_tokenizer(file: Path, facts: Facts, out: Path) -> None:
    """Writes the tokenizer of a GGUF file into a transformers folder.

    Raises:
        ValueError: it cannot be read, or how it cuts text is not known; one sentence.
    """
    bos = {"add_bos_token": True} if facts.adds_bos else {}
    try:
        read = AutoTokenizer.from_pretrained(
            str(file.parent), gguf_file=file.name, local_files_only=True, trust_remote_code=False, **bos
        )
    except Exception as error:
        # The Rust library raises plain Exceptions.
        raise ValueError(f"model.path: the tokenizer in {file} cannot be read: {first_line(error)}") from None
    backend = read.backend_tokenizer
    if facts.is_byte_level:
        backend.pre_tokenizer = _pre_tokenizer(file, facts.pre_tokenizer)
        if facts.pre_tokenizer in _NFC:
            backend.normalizer = normalizers.NFC()
    # The general class reads tokenizer.json as it is; those of architectures build some of it anew.
    plain = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=read.bos_token,
        eos_token=read.eos_token,
        unk_token=read.unk_token,
        pad_token=read.pad_token,
        clean_up_tokenization_spaces=False,
    )
    plain.chat_template = read.chat_template
    plain.save_pretrained(str(out))


def check_written(file: Path, facts: Facts, folder: Path) -> None:
    """Checks that the tokenizer of a folder, read as a user will, cuts text as the file says, and gives it back.

    transformers replaces the rule of some architectures (Qwen2) by that of their best known models.

    Raises:
        ValueError: it does not; one sentence.
    """
    written = load_tokenizer(folder)
    assert isinstance(written, PreTrainedTokenizerFast)
    if facts.is_byte_level:
        pieces = _pre_tokenizer(file, facts.pre_tokenizer).pre_tokenize_str(_SAMPLE)
        if written.backend_tokenizer.pre_tokenizer.pre_tokenize_str(_SAMPLE) != pieces:
            raise ValueError(
                f"model.path: {file} cuts text by the rule {facts.pre_tokenizer!r} (tokenizer.ggml.pre), and"
                " transformers reads a model of its architecture by another one"
            )
    if written.decode(written.encode(_SAMPLE, add_special_tokens=False)) != _SAMPLE:
        raise ValueError(f"model.path: the tokenizer in {file} does not give text back from its tokens")


def _pre_tokenizer(file: Path, rule: str) -> pre_tokenizers.PreTokenizer:
    if rule in _SPLITS:
        split = pre_tokenizers.Split(Regex(_SPLITS[rule]), behavior="isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    as_gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if rule in _DIGITS_FIRST:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), as_gpt2])
    if rule in _AS_GPT2:
        return as_gpt2
    known = ", ".join(sorted((*_SPLITS, *_DIGITS_FIRST, *_AS_GPT2[1:])))
    raise ValueError(
        f"model.path: {file} cuts text by the rule {rule!r} (tokenizer.ggml.pre), which is not known here; allowed:"
        f" {known}"
    )
