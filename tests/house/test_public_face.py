"""What `rllib_ragen` exports: documented with types, loaded only when it is used, seen by type checkers."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import rllib_ragen
from rllib_ragen.config.commands import COMMANDS, usage
from rllib_ragen.run.result import RunResult

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "python.md").read_text(encoding="utf-8")
SAID = dict(re.findall(r"^### `(\w+)`\n\n    (.+)$", PAGE, re.MULTILINE))
OF_RAY = ("AssignCredit", "StarPO", "StarPOConfig", "TokeniseObservations")
"""Names of what is derived from classes of RLlib's."""
HEAVY = ("ray", "torch", "transformers", "vllm", "optuna", "matplotlib", "pandas", "scipy")


def declared(name: str) -> str:
    """How Python itself writes the name down: its signature, or the class and its bases."""
    thing = getattr(rllib_ragen, name)
    if SAID[name].startswith("class "):
        source = inspect.getsource(thing)
        found = re.search(rf"^class {name}\b.*(?=:$)", source, re.MULTILINE)
        assert found is not None
        return found[0]
    # Annotations are texts here, which Python shows in quotes.
    signature = re.sub(r"(?<=: )'([^']+)'(?=,| =|\))|(?<=-> )'([^']+)'$", r"\1\2", str(inspect.signature(thing)))
    return f"{name}{signature}".replace("ray.rllib.algorithms.algorithm_config.", "")


def test_the_page_documents_exactly_what_is_exported() -> None:
    assert sorted(SAID) == sorted(rllib_ragen.__all__)


@pytest.mark.parametrize("name", rllib_ragen.__all__)
def test_the_page_says_the_types(name: str) -> None:
    assert SAID[name] == declared(name)


def test_the_page_says_what_a_result_has() -> None:
    table = PAGE.split("### `load_run`")[0]
    told = {name: kind.replace("\\|", "|") for name, kind in re.findall(r"^\| `(\w+)` \| `(.+?)` \|", table, re.M)}
    assert told == {
        field: str(kind).replace("Row", "dict[str, Any]") for field, kind in RunResult.__annotations__.items()
    }


def test_only_what_is_exported_is_there() -> None:
    for name in rllib_ragen.__all__:
        assert getattr(rllib_ragen, name) is not None
        assert name in dir(rllib_ragen)
    with pytest.raises(AttributeError, match="no attribute 'Stargazer'"):
        _ = rllib_ragen.Stargazer
    assert sorted(rllib_ragen._MODULES) == rllib_ragen.__all__


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(' '.join(set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=TOP, check=True)
    return {module.partition(".")[0] for module in done.stdout.splitlines()[-1].split()}


def test_the_import_loads_nothing_and_light_names_load_nothing_heavy() -> None:
    assert not loaded_by("import rllib_ragen; dir(rllib_ragen)") & {*HEAVY, "pydantic", "numpy", "gymnasium"}
    light = [name for name in rllib_ragen.__all__ if name not in OF_RAY]
    assert not loaded_by(f"from rllib_ragen import {', '.join(light)}") & set(HEAVY)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_nothing_heavy(command: str) -> None:
    code = f"""
from rllib_ragen.config.commands import main
try: main(['{command}', '--help'])
except SystemExit as end: assert end.code == 0
"""
    # A sweep file's space is made of Optuna's distributions.
    may = {"optuna", "scipy"} if command == "sweep" else set()
    assert not loaded_by(code) & (set(HEAVY) - may)


def test_the_list_of_commands_loads_nothing() -> None:
    assert all(command in usage() for command in COMMANDS)
    assert not loaded_by("from rllib_ragen.config.commands import main; main(['--help'])") & {*HEAVY, "pydantic"}


def test_a_type_checker_sees_the_names() -> None:
    """What the TYPE_CHECKING block imports is what the names mean at run time, each re-exported explicitly."""
    source = (TOP / "rllib_ragen" / "__init__.py").read_text(encoding="utf-8")
    block = source.split("if TYPE_CHECKING:\n")[1].split("\n\n")[0]
    told = {
        name: module for module, name, again in re.findall(r"from (\S+) import (\w+) as (\w+)", block) if name == again
    }
    assert told == rllib_ragen._MODULES
    assert typing.get_type_hints(rllib_ragen.load_run)["return"] is RunResult
