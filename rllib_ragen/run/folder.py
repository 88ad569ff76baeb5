"""The folder that a run leaves: config, versions, checkpoints, exported model; where its logs are (run_log.py)."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import read_yaml, save_config
from rllib_ragen.config.paths import enter_path
from rllib_ragen.config.printable import word
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.starpo.checkpoint.files import link_folder, write_whole
from rllib_ragen.starpo.checkpoint.versions import installed_versions
from rllib_ragen.starpo.checks.build_config import build_config

_CHECKPOINT = re.compile(r"iteration_(\d{6,})")


class SavedState(NamedTuple):
    """One checkpoint."""

    iteration: int
    path: Path


class RunFolder:
    """`results/<run>/` and what lies in it."""

    def __init__(self, path: Path) -> None:
        self.path = enter_path(path)

    @classmethod
    def create(cls, config: RunConfig, name: str) -> RunFolder:
        """A new folder `name` with the resolved config and the versions of what runs.

        Raises:
            ConfigError: there is one of that name already.
        """
        path = enter_path(config.results_dir) / name
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise ConfigError(f"name: {path} exists already; give another --name, or --resume {word(path)}") from None
        save_config(config, path / "config.yaml")
        (path / "versions.json").write_text(json.dumps(installed_versions(), indent=2) + "\n")
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
        return _states(self.path / "checkpoints")

    def best_checkpoint(self) -> SavedState | None:
        """The one that was best on validation; None without validation."""
        found = _states(self.path / "best")
        return found[-1] if found else None

    def newest_checkpoint(self) -> SavedState:
        """Raises ConfigError if there is none."""
        found = self.checkpoints()
        if not found:
            raise ConfigError(f"{self.path} has no checkpoint to go on from")
        return found[-1]

    def save_checkpoint(self, iteration: int, save: Callable[[Path], object], keep: int) -> Path:
        """Lets `save` fill a folder, which gets its name only when it is complete; keeps the newest `keep` (0: all)."""
        final, best = self.path / "checkpoints" / f"iteration_{iteration:06d}", self.best_checkpoint()
        if best is not None and best.iteration == iteration:
            save = partial(link_folder, best.path)
        write_whole(final, save)
        earlier_bests = _states(self.path / "best")[:-1]
        for old in (self.checkpoints()[:-keep] if keep else []) + earlier_bests:
            shutil.rmtree(old.path)
        return final

    def save_best(self, iteration: int, save: Callable[[Path], object]) -> Path:
        """Likewise, of the best validation so far. The one before is kept until a checkpoint says that this one stays:

        a run that is killed in between is played again from before this iteration.
        """
        final = self.path / "best" / f"iteration_{iteration:06d}"
        write_whole(final, save)
        return final

    def forget_bests_after(self, iteration: int) -> None:
        """Removes what will be found again by a run that goes on from `iteration`."""
        for state in _states(self.path / "best"):
            if state.iteration > iteration:
                shutil.rmtree(state.path)


def _states(folder: Path) -> list[SavedState]:
    found = [(_CHECKPOINT.fullmatch(path.name), path) for path in folder.glob("*")]
    return sorted(SavedState(int(match[1]), path) for match, path in found if match)
