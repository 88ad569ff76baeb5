"""What a command line calls a model: where its weights are, what they are called in tables, how they were trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rllib_ragen.checkpoint import STATE_FILE, read_facts
from rllib_ragen.config import EMBEDDED_MODEL
from rllib_ragen.config_checks import ConfigError
from rllib_ragen.config_load import read_yaml
from rllib_ragen.models.folder import check_model_folder, model_folder
from rllib_ragen.run_folder import RunFolder

_PARENTS = 5


@dataclass(frozen=True)
class ModelSource:
    """A model on disk."""

    name: str
    folder: Path
    """A transformers folder."""
    adapter: Path | None = None
    """A peft folder on top of it."""
    settings: dict[str, Any] | None = None
    """config.yaml of the run that it comes from."""


def find_model(given: str, max_context_tokens: int) -> ModelSource:
    """The model that `given` names: tiny, a transformers folder, a run folder (its newest checkpoint), a checkpoint, or
    one of the policies in a checkpoint.

    Raises:
        ConfigError: there is none, a checkpoint with several policies of which none is named, or a model that takes
            fewer than `max_context_tokens`.
    """
    path = Path(given)
    if given == EMBEDDED_MODEL or (path / "config.json").is_file():
        return _checked(
            ModelSource(_label(path), model_folder(given), settings=_run_settings(path)), max_context_tokens
        )
    if (path / "config.yaml").is_file():
        path = RunFolder.open(path).newest_checkpoint().path
    if (path / STATE_FILE).is_file():
        path = path / _only_policy(path)
    if (path.parent / STATE_FILE).is_file():
        return _checked(_policy(path), max_context_tokens)
    raise ConfigError(
        f"{given!r} is no model; allowed: {EMBEDDED_MODEL}, a transformers folder, a run folder, a checkpoint, or a "
        "policy in a checkpoint"
    )


def find_models(given: Sequence[str], max_context_tokens: int) -> list[ModelSource]:
    """The models, each with a name of its own.

    Raises:
        ConfigError: see `find_model`, or the same model twice.
    """
    found = [find_model(one, max_context_tokens) for one in given]
    for index, one in enumerate(found):
        if any((other.folder, other.adapter) == (one.folder, one.adapter) for other in found[:index]):
            raise ConfigError(f"{given[index]!r} is named twice")
    names = [one.name for one in found]
    return [
        one if names.count(one.name) == 1 else ModelSource(given[i], one.folder, one.adapter, one.settings)
        for i, one in enumerate(found)
    ]


def _only_policy(checkpoint: Path) -> str:
    try:
        modules: list[str] = read_facts(checkpoint)["modules"]
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if len(modules) != 1:
        raise ConfigError(
            f"{checkpoint} holds the policies {', '.join(modules)}: name one, as {checkpoint / modules[0]}"
        )
    return modules[0]


def _policy(path: Path) -> ModelSource:
    facts = read_facts(path.parent)
    several = len(facts["modules"]) > 1
    name = f"{_label(path.parent)}/{path.name}" if several else _label(path.parent)
    settings = _run_settings(path)
    if (path / "adapter").is_dir():
        from rllib_ragen.adapter_folder import weights_fingerprint

        base = Path(facts["adapter_base"]["folder"])
        if not base.is_dir() or weights_fingerprint(base) != facts["adapter_base"]["fingerprint"]:
            raise ConfigError(f"{path}: the model of its adapters is not (or no longer) in {str(base)!r}")
        return ModelSource(name, base, path / "adapter", settings)
    if not (path / "policy").is_dir():
        raise ConfigError(
            f"the checkpoint {path.parent} has no policy {path.name!r}; it has {', '.join(facts['modules'])}"
        )
    return ModelSource(name, path / "policy", settings=settings)


def _checked(source: ModelSource, max_context_tokens: int) -> ModelSource:
    try:
        check_model_folder(str(source.folder), max_context_tokens)
    except ValueError as error:
        raise ConfigError(f"{source.name}: {error}") from None
    return source


def _label(path: Path) -> str:
    """`run/iteration_000010` of a checkpoint in a run, else the folder's name."""
    path = path if str(path) == EMBEDDED_MODEL else path.resolve()
    return f"{path.parents[1].name}/{path.name}" if path.parent.name == "checkpoints" else path.name


def _run_settings(path: Path) -> dict[str, Any] | None:
    """config.yaml of the run folder that `path` lies in."""
    for folder in [path, *path.resolve().parents][:_PARENTS]:
        if (folder / "config.yaml").is_file():
            return dict(read_yaml(folder / "config.yaml"))
    return None
