"""Models of the command line: their weights, names in tables, and runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import read_yaml
from rllib_ragen.config.paths import EMBEDDED_MODEL, SMOLLM2, enter_model, is_model_name
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.gguf.kept import ensure_converted
from rllib_ragen.models.gguf.source import is_gguf
from rllib_ragen.run.folder import CHECKPOINTS, CONFIG_FILE, RunFolder, is_run_folder
from rllib_ragen.starpo.checkpoint.layout import is_checkpoint
from rllib_ragen.starpo.checkpoint.manifest import read_manifest
from rllib_ragen.starpo.checkpoint.saved_policy import main_policy, saved_policy


@dataclass(frozen=True)
class ModelSource:
    """A model on disk."""

    name: str
    folder: Path
    """A transformers folder."""
    adapter: Path | None = None
    """A peft folder on top of it."""
    config: Tree | None = None
    """Config of the run that it comes from; None: of no run."""
    reply_prefix: str = ""
    template_kwargs: Tree = field(default_factory=dict)
    """Variables of the chat template; like `reply_prefix`, a key of a run's config."""


def find_models(given: Sequence[str]) -> list[ModelSource]:
    """Finds the models, and gives each a unique name.

    Raises:
        ConfigError: see `find_model`, or the same model twice.
    """
    given = [enter_model(one) for one in given]
    found = [find_model(one) for one in given]
    for index, one in enumerate(found):
        if any((other.folder, other.adapter) == (one.folder, one.adapter) for other in found[:index]):
            raise ConfigError(f"{given[index]!r} is named twice")
    names = [one.name for one in found]
    alike = [Path(path).resolve() for path, name in zip(given, names, strict=True) if names.count(name) > 1]
    return [
        one if names.count(one.name) == 1 else replace(one, name=_told_apart(Path(path).resolve(), alike))
        for path, one in zip(given, found, strict=True)
    ]


def find_model(given: str) -> ModelSource:
    """Finds the model that `given` names: a name as `tiny`, a GGUF file, a transformers folder, a run folder (its
    newest checkpoint), a checkpoint, or one of a checkpoint's policies.

    Raises:
        ConfigError: there is none, or a checkpoint has several policies and none is named.
    """
    path = Path(given)
    if is_gguf(given):
        try:
            return ModelSource(path.stem, ensure_converted(given))
        except ValueError as error:
            raise ConfigError(str(error)) from None
    if is_model_name(given):
        return ModelSource(given, model_folder(given))
    if (path / "config.json").is_file():
        saved = path.resolve().parent / CONFIG_FILE
        return ModelSource(
            path.resolve().name, path.resolve(), config=dict(read_yaml(saved)) if saved.is_file() else None
        )
    if is_run_folder(path):
        path = RunFolder.open(path).newest_checkpoint().path
    path = path.resolve()
    if is_checkpoint(path):
        return _policy(path, None)
    if is_checkpoint(path.parent):
        return _policy(path.parent, path.name)
    raise ConfigError(
        f"{given!r} is no model; allowed: {EMBEDDED_MODEL}, {SMOLLM2}, a GGUF file, a transformers folder, a run"
        " folder, a checkpoint, or a policy in a checkpoint"
    )


def _policy(checkpoint: Path, policy: str | None) -> ModelSource:
    """Finds a policy of a checkpoint, the trained one if none is named."""
    try:
        found = saved_policy(checkpoint, policy)
        manifest = read_manifest(checkpoint)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    is_main = policy in (None, main_policy(manifest))
    name = _label(checkpoint) if is_main else f"{_label(checkpoint)}/{policy}"
    return ModelSource(name, found.folder, found.adapter, manifest["config"])


def _told_apart(path: Path, others: Sequence[Path]) -> str:
    """Returns the shortest end of `path` that none of `others` has."""
    lengths = range(1, len(path.parts) + 1)
    ends = (path.parts[-length:] for length in lengths)
    return "/".join(next(end for end in ends if sum(other.parts[-len(end) :] == end for other in others) == 1))


def _label(checkpoint: Path) -> str:
    """Returns the label of a checkpoint: `run/iteration_000010`, or the folder's name if it is in no run."""
    in_run = checkpoint.parent.name == CHECKPOINTS
    return f"{checkpoint.parents[1].name}/{checkpoint.name}" if in_run else checkpoint.name
