"""Private names of libraries are said in rllib_ragen/faults/private_names and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
ADAPTER = TOP / "rllib_ragen" / "faults" / "private_names"
SOURCES = sorted(
    path for folder in ("envs", "rllib_ragen") for path in (TOP / folder).rglob("*.py") if ADAPTER not in path.parents
)
DOCUMENTED = {
    "os._exit",
    "self._replace",  # of NamedTuple
    # What PettingZoo's own guide tells an AECEnv to call.
    "self._was_dead_step",
    "self._deads_step_first",
    "self._accumulate_rewards",
    "self._clear_rewards",
}


def defined(tree: ast.AST) -> set[str]:
    """Names that a file gives to functions, classes, attributes and fields."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
    return names


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def foreign(source: str) -> Iterator[str]:
    """Private names of others that a source uses."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            yield from (f"import {node.module}: {part}" for part in parts if is_private(part))
        elif isinstance(node, ast.Import):
            yield from (f"import {a.name}" for a in node.names if any(map(is_private, a.name.split("."))))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if (node.attr in OF_LIBRARIES or node.attr not in OURS) and ast.unparse(node) not in DOCUMENTED:
                yield ast.unparse(node)
        elif isinstance(node, ast.ClassDef):
            methods = [one.name for one in node.body if isinstance(one, ast.FunctionDef)]
            yield from (f"def {name}" for name in methods if name in OVERRIDDEN)


def adapted() -> Iterator[tuple[str, bool]]:
    """(private name that the adapter says, whether it overrides it)."""
    for path in ADAPTER.glob("of_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield from ((one.name, True) for one in node.body if isinstance(one, ast.FunctionDef))
            elif isinstance(node, ast.Attribute):
                yield node.attr, False
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                yield node.value, False


OURS = set().union(*(defined(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES))
OF_LIBRARIES = {name for name, _ in adapted() if is_private(name)}
OVERRIDDEN = {name for name, overrides in adapted() if overrides and is_private(name)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(TOP)))
def test_no_file_but_the_adapter_says_a_librarys_private_name(path: Path) -> None:
    assert list(foreign(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "runners._worker_manager.actors()",
        "class A(B):\n    def f(self):\n        self._weights_seq_no += 1",
        "from ray.tune.registry import _global_registry",
        "import ray._private.worker",
        "from torch._C import Node",
        "study._storage",
        "class A(TorchLearner):\n    def _map_module_to_device(self, module): pass",
    ],
)
def test_the_search_finds_each_kind(source: str) -> None:
    assert list(foreign(source))
