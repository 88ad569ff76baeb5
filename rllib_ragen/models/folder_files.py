"""The files that loaders read from a model folder: present, complete, and valid JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MODEL_WEIGHTS = "model.safetensors"
"""Weights of a transformers folder that has them in one file."""
_READ = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
"""Patterns of the files that transformers, vLLM, peft and this project read."""
_MAYBE_EMPTY = ("merges.txt",)
_OBJECTS = (
    *("config.json", "generation_config.json", "model.safetensors.index.json", "chat_template.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"),
)
_LFS = b"version https://git-lfs.github.com/spec/"


def check_files(folder: Path) -> None:
    """Checks that the files of `folder` are readable, not Git-LFS pointers and, where necessary, JSON objects.

    Raises:
        ValueError: one sentence that names the first bad file.
    """
    for path in sorted({path for pattern in _READ for path in folder.glob(pattern)}):
        if path.is_symlink() and not path.exists():
            raise ValueError(f"model.path: {path} is a link to a file that is not there")
        if path.is_file():
            _check_beginning(path)
    for name in _OBJECTS:
        if (folder / name).is_file():
            read_object(folder / name)
    _check_generation(folder / "generation_config.json")


def read_object(path: Path) -> dict[str, Any]:
    """Reads the JSON object in a file of a model folder.

    Raises:
        ValueError: it cannot be read, or is not a JSON object; one sentence.
    """
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"model.path: {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"model.path: {path} cannot be read: {error} (not JSON)") from None
    if not isinstance(tree, dict):
        raise ValueError(f"model.path: {path} must hold a JSON object, not a {type(tree).__name__}")
    return tree


def token_ids(value: object) -> list[int] | None:
    """Returns token ids as a list, from null, a number, or a list of numbers; None for anything else."""
    found: list[object] = value if isinstance(value, list) else [] if value is None else [value]
    whole = [one for one in found if isinstance(one, int) and not isinstance(one, bool) and one >= 0]
    return whole if len(whole) == len(found) else None


def _check_beginning(path: Path) -> None:
    try:
        with path.open("rb") as file:
            beginning = file.read(len(_LFS))
    except OSError as error:
        raise ValueError(f"model.path: {path} cannot be read: {error.strerror}") from None
    if beginning == _LFS:
        raise ValueError(
            f"model.path: {path} is a Git-LFS pointer, not the file itself; fetch it (git lfs pull) where it comes from"
        )
    if not beginning and path.name not in _MAYBE_EMPTY:
        raise ValueError(f"model.path: {path} is empty")


def _check_generation(path: Path) -> None:
    """Checks the only part that is used: the tokens that end a reply."""
    if path.is_file() and token_ids(found := read_object(path).get("eos_token_id")) is None:
        raise ValueError(f"model.path: eos_token_id in {path} must be a token id or a list of them, got {found!r}")
