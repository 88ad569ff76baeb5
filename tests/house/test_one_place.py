"""What has one place is said nowhere else in the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.rllib.core import DEFAULT_MODULE_ID

from rllib_ragen.types import DEFAULT_MODULE

PACKAGE = Path(__file__).parents[2] / "rllib_ragen"
SOURCES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
HOMES = {
    "starpo/checkpoint/layout.py": {
        "state.json",
        "ahead.jsonl",
        "adapter_model.safetensors",
        "value_head.safetensors",
        "optimizer.safetensors",
        "adapter",
    },
    "models/folder_files.py": {"model.safetensors"},
    "run/folder.py": {"config.yaml", "versions.json", "checkpoints", "model_adapter"},
    "types.py": {DEFAULT_MODULE},
}
"""File → names that only it may write as strings."""


def strings(path: Path) -> Iterator[str]:
    """String constants of a file that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


@pytest.mark.parametrize("home", HOMES)
def test_names_of_files_and_folders_have_one_place(home: str) -> None:
    assert HOMES[home] <= set(strings(SOURCES[home]))
    elsewhere = {
        (name, said) for name, path in SOURCES.items() if name != home for said in strings(path) if said in HOMES[home]
    }
    assert elsewhere == set()


def test_the_one_policy_has_rllibs_name() -> None:
    assert DEFAULT_MODULE == DEFAULT_MODULE_ID
