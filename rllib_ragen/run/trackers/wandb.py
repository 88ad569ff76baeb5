"""Weights & Biases: curves and tables in `RUN/wandb`, offline unless the environment says otherwise."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.printable import word
from rllib_ragen.run.trackers.table import COLUMNS, turn_rows
from rllib_ragen.run.trackers.tracker import PROJECT, TrackedRun

Mode = Literal["online", "offline", "disabled", "shared"]
_MODES: dict[str, Mode] = {str(mode): mode for mode in get_args(Mode)}


def mode() -> Mode:
    """Returns WANDB_MODE; without it `online` where WANDB_API_KEY is set, else `offline`.

    Raises:
        ConfigError: a WANDB_MODE that does not exist, or that needs a key where none is set.
    """
    key = bool(os.environ.get("WANDB_API_KEY"))
    said = os.environ.get("WANDB_MODE") or ("online" if key else "offline")
    if said not in _MODES:
        raise ConfigError(f"trackers: WANDB_MODE={said} must be one of {', '.join(_MODES)}")
    if said in ("online", "shared") and not key:
        raise ConfigError(
            f"trackers: WANDB_MODE={said} needs WANDB_API_KEY in the environment; allowed without it: offline"
        )
    return _MODES[said]


def check() -> None:
    """Checks what the environment says.

    Raises:
        ConfigError: see `mode`.
    """
    mode()


def how_to_see(folder: Path) -> str:
    """Says how one sees what is there of the run in `folder`."""
    return f"wandb sync {word(folder / 'wandb')}/offline-run-*" if mode() == "offline" else f"W&B, {mode()}"


class WandbTracker:
    """Every call is a row of its own over the column `iteration`: what is logged once is there even if the run is
    killed.
    """

    def __init__(self, run: TrackedRun) -> None:
        # wandb would send its own crashes to its makers.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        self.key = run.key or uuid.uuid4().hex[:12]
        self._table = wandb.Table
        # Its console would be a copy of ours, its code and git a copy of the user's: none is asked for.
        quiet = wandb.Settings(console="off", silent=True, disable_code=True, disable_git=True, show_info=False)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            dir=str(run.folder),
            id=self.key,
            name=run.folder.name,
            group=run.group,
            config=dict(run.settings),
            allow_val_change=True,
            mode=mode(),
            resume="allow",
            reinit="create_new",
            save_code=False,
            settings=quiet,
        )
        self._run.define_metric("*", step_metric="iteration")

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        """Adds a row."""
        self._run.log({"iteration": iteration, **values})

    def log_trajectories(self, iteration: int, records: Sequence[Tree]) -> None:
        """Adds the table `trajectories`."""
        table = self._table(columns=list(COLUMNS), data=turn_rows(iteration, records))
        self._run.log({"iteration": iteration, "trajectories": table})

    def close(self) -> None:
        """Waits until all is written, or sent."""
        self._run.finish()
