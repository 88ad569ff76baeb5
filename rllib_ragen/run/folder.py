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
"""Folder of a run's checkpoints."""
_BEST = "best"
_END = "end.json"
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
        """Returns a new folder `name` with the resolved config and the versions of what runs.

        Raises:
            ConfigError: there is one of that name already.
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
        """Returns the folder of an earlier run.

        Raises:
            ConfigError: `path` is no run folder.
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
        """What a run with `learner.lora_rank` trained, as a peft folder."""
        return self.path / "model_adapter"

    def config(self) -> RunConfig:
        """Returns the config that was saved, checked. Raises ConfigError if this version cannot run it."""
        return build_config(read_yaml(self.path / CONFIG_FILE))

    def config_as_read(self) -> RunConfig:
        """Returns the config that was saved, for who only shows it: what it names need not be there, and is not
        imported.

        Raises:
            ConfigError: this version does not know a key or its value.
        """
        return parse_config(read_yaml(self.path / CONFIG_FILE))

    def stop_reason(self) -> str | None:
        """Says why the run stopped, in words; None if it has not, or was killed."""
        path = self.path / _END
        return str(json.loads(path.read_text(encoding="utf-8"))["stop_reason"]) if path.is_file() else None

    def is_finished(self, iteration: int) -> bool:
        """Says whether the policy after `iteration` has been tested and exported, as far as the run has noted it."""
        path = self.path / _END
        end = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return bool(end.get("finished")) and bool(end["iteration"] == iteration)

    def save_stop_reason(self, iteration: int, reason: str, *, finished: bool) -> None:
        """Notes that the run has come to an end; `finished`: tested and exported, too."""
        end = {"iteration": iteration, "stop_reason": reason, "finished": finished}
        (self.path / _END).write_text(json.dumps(end, indent=2) + "\n", encoding="utf-8")

    def forget_stop_reason(self) -> None:
        """Notes that the run goes on."""
        (self.path / _END).unlink(missing_ok=True)

    def checkpoints(self) -> list[SavedState]:
        """Returns all complete checkpoints, oldest first."""
        return _states(self.path / CHECKPOINTS)

    def best_checkpoint(self) -> SavedState | None:
        """Returns the one that was best on validation; None without validation."""
        found = _states(self.path / _BEST)
        return found[-1] if found else None

    def newest_checkpoint(self) -> SavedState:
        """Raises ConfigError if there is none."""
        found = self.checkpoints()
        if not found:
            raise ConfigError(f"{self.path} has no checkpoint to go on from")
        return found[-1]

    def newest_policy(self) -> SavedPolicy:
        """Says what the run has learnt so far: the model that it exported at its end, else its newest checkpoint's
        policy.

        Raises:
            ConfigError: neither is there, or of adapters the model that they belong to is gone.
        """
        if self.export.is_dir():
            return SavedPolicy(self.export)
        try:
            return saved_policy(self.newest_checkpoint().path)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def save_checkpoint(self, iteration: int, save: Callable[[Path], object], keep: int) -> Path:
        """Lets `save` fill a folder, which gets its name only when it is complete; keeps the newest `keep` (0: all)."""
        final, best = self.path / CHECKPOINTS / checkpoint_name(iteration), self.best_checkpoint()
        if best is not None and best.iteration == iteration:
            save = partial(link_folder, best.path)
        write_whole(final, save)
        earlier_bests = _states(self.path / _BEST)[:-1]
        for old in (self.checkpoints()[:-keep] if keep else []) + earlier_bests:
            shutil.rmtree(old.path)
        return final

    def save_best(self, iteration: int, save: Callable[[Path], object]) -> Path:
        """Saves likewise the best validation so far. The one before is kept until a checkpoint says that this one
        stays:

        a run that is killed in between is played again from before this iteration.
        """
        final = self.path / _BEST / checkpoint_name(iteration)
        write_whole(final, save)
        return final

    def forget_bests_after(self, iteration: int) -> None:
        """Removes what will be found again by a run that goes on from `iteration`."""
        for state in _states(self.path / _BEST):
            if state.iteration > iteration:
                shutil.rmtree(state.path)


def is_run_folder(path: Path) -> bool:
    """Says whether a run began here."""
    return (path / CONFIG_FILE).is_file()


def checkpoint_name(iteration: int) -> str:
    """Names the folder of an iteration's checkpoint."""
    return f"iteration_{iteration:06d}"


def _states(folder: Path) -> list[SavedState]:
    found = [(_CHECKPOINT.fullmatch(path.name), path) for path in folder.glob("*")]
    return sorted(SavedState(int(match[1]), path) for match, path in found if match)
