"""The folder of a run: config, versions, checkpoints, exported model, and logs (log.py)."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import parse_config, read_yaml, save_config
from rllib_ragen.config.paths import enter_path
from rllib_ragen.config.printable import word
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.starpo.checkpoint.files import link_folder, write_whole
from rllib_ragen.starpo.checkpoint.saved_policy import SavedPolicy, saved_policy
from rllib_ragen.starpo.checkpoint.versions import installed_versions
from rllib_ragen.starpo.checks.build_config import build_config

CONFIG_FILE = "config.yaml"
VERSIONS_FILE = "versions.json"
CHECKPOINTS = "checkpoints"
"""Name of the folder of a run's checkpoints."""
_BEST = "best"
_END = "end.json"
_CHECKPOINT = re.compile(r"iteration_(\d{6,})")


class SavedState(NamedTuple):
    """A checkpoint of a run."""

    iteration: int
    path: Path


class RunFolder:
    """`results/<run>/` and its contents."""

    def __init__(self, path: Path) -> None:
        self.path = enter_path(path)

    @classmethod
    def create(cls, config: RunConfig, name: str) -> RunFolder:
        """Makes a new folder `name` with the resolved config and the versions of the packages.

        Raises:
            ConfigError: a folder of that name exists.
        """
        path = enter_path(config.results_dir) / name
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            resumable = is_run_folder(path) and cls(path).checkpoints()
            way_out = f"--resume {word(path)}" if resumable else "delete it: it holds no checkpoint"
            raise ConfigError(f"name: {path} exists already; give another --name, or {way_out}") from None
        save_config(config, path / CONFIG_FILE)
        (path / VERSIONS_FILE).write_text(json.dumps(installed_versions(), indent=2) + "\n")
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Opens the folder of an earlier run.

        Raises:
            ConfigError: `path` is not a run folder.
        """
        if not is_run_folder(path):
            raise ConfigError(f"{path} is no run folder: it has no {CONFIG_FILE}")
        return cls(path)

    @property
    def export(self) -> Path:
        """The policy as a plain transformers folder."""
        return self.path / "model"

    @property
    def export_adapter(self) -> Path:
        """The adapters of a run with `learner.lora_rank`, as a peft folder."""
        return self.path / "model_adapter"

    def config(self) -> RunConfig:
        """Reads and checks the saved config. Raises ConfigError if this version cannot run it."""
        return build_config(read_yaml(self.path / CONFIG_FILE))

    def config_as_read(self) -> RunConfig:
        """Reads the saved config without checks, to show it: files and modules that it names need not exist.

        Raises:
            ConfigError: this version does not know a key or its value.
        """
        return parse_config(read_yaml(self.path / CONFIG_FILE))

    def stop_reason(self) -> str | None:
        """Returns why the run stopped, in words; None if it has not, or was killed."""
        path = self.path / _END
        return str(json.loads(path.read_text(encoding="utf-8"))["stop_reason"]) if path.is_file() else None

    def is_finished(self, iteration: int) -> bool:
        """Returns whether the policy after `iteration` has been tested and exported, by the run's record."""
        path = self.path / _END
        end = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return bool(end.get("finished")) and bool(end["iteration"] == iteration)

    def save_stop_reason(self, iteration: int, reason: str, *, finished: bool) -> None:
        """Records the end of the run; `finished`: it has also been tested and exported."""
        end = {"iteration": iteration, "stop_reason": reason, "finished": finished}
        (self.path / _END).write_text(json.dumps(end, indent=2) + "\n", encoding="utf-8")

    def forget_stop_reason(self) -> None:
        """Records that the run goes on."""
        (self.path / _END).unlink(missing_ok=True)

    def checkpoints(self) -> list[SavedState]:
        """Returns all complete checkpoints, oldest first."""
        return _states(self.path / CHECKPOINTS)

    def best_checkpoint(self) -> SavedState | None:
        """Returns the best checkpoint on validation; None without validation."""
        found = _states(self.path / _BEST)
        return found[-1] if found else None

    def newest_checkpoint(self) -> SavedState:
        """Returns the newest checkpoint. Raises ConfigError if there is none."""
        found = self.checkpoints()
        if not found:
            raise ConfigError(f"{self.path} has no checkpoint to go on from")
        return found[-1]

    def newest_policy(self) -> SavedPolicy:
        """Returns the newest policy: the model that the run exported at its end, else that of its newest checkpoint.

        Raises:
            ConfigError: there is neither, or the base model of the adapters is gone.
        """
        if self.export.is_dir():
            return SavedPolicy(self.export)
        try:
            return saved_policy(self.newest_checkpoint().path)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def save_checkpoint(self, iteration: int, save: Callable[[Path], object], keep: int) -> Path:
        """Calls `save` to fill a folder that is renamed when it is complete; keeps the newest `keep` (0: all)."""
        final, best = self.path / CHECKPOINTS / checkpoint_name(iteration), self.best_checkpoint()
        if best is not None and best.iteration == iteration:
            save = partial(link_folder, best.path)
        write_whole(final, save)
        earlier_bests = _states(self.path / _BEST)[:-1]
        for old in (self.checkpoints()[:-keep] if keep else []) + earlier_bests:
            shutil.rmtree(old.path)
        return final

    def save_best(self, iteration: int, save: Callable[[Path], object]) -> Path:
        """Saves likewise the best validation so far. The one before is kept until the next checkpoint confirms this
        one: a run that is killed in between is resumed from before this iteration.
        """
        final = self.path / _BEST / checkpoint_name(iteration)
        write_whole(final, save)
        return final

    def forget_bests_after(self, iteration: int) -> None:
        """Removes best checkpoints that a run resumed from `iteration` will save again."""
        for state in _states(self.path / _BEST):
            if state.iteration > iteration:
                shutil.rmtree(state.path)


def is_run_folder(path: Path) -> bool:
    """Returns whether `path` is the folder of a run."""
    return (path / CONFIG_FILE).is_file()


def checkpoint_name(iteration: int) -> str:
    """Returns the folder name of an iteration's checkpoint."""
    return f"iteration_{iteration:06d}"


def _states(folder: Path) -> list[SavedState]:
    found = [(_CHECKPOINT.fullmatch(path.name), path) for path in folder.glob("*")]
    return sorted(SavedState(int(match[1]), path) for match, path in found if match)
