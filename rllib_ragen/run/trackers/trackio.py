"""Trackio: curves and tables in the user's own Trackio folder (TRACKIO_DIR), never on a server."""

from __future__ import annotations

import contextlib
import io
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.run.trackers.table import COLUMNS, as_code, turn_rows
from rllib_ragen.run.trackers.tracker import PROJECT, TrackedRun

_ELSEWHERE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")


def check() -> None:
    """Checks that the environment sends records nowhere.

    Raises:
        ConfigError: it names a Space or a server.
    """
    for name in _ELSEWHERE:
        if os.environ.get(name):
            raise ConfigError(f"trackers: trackio is local only, but {name} is set; unset it, and `trackio sync` later")


def how_to_see(folder: Path) -> str:
    """Says how one sees what is there of the run in `folder`."""
    return f"trackio show --project {PROJECT}"


class TrackioTracker:
    """A record of its own name: runs of one name in two folders are two records."""

    def __init__(self, run: TrackedRun) -> None:
        import trackio

        self.key = run.key or f"{run.folder.name}-{uuid.uuid4().hex[:8]}"
        self._table = trackio.Table
        with _quiet():
            self._run = trackio.init(
                PROJECT,
                name=self.key,
                group=run.group,
                config=dict(run.settings),
                resume="must" if run.key else "never",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        """Adds the numbers at step `iteration`."""
        self._run.log(dict(values), step=iteration)

    def log_trajectories(self, iteration: int, records: Sequence[Tree]) -> None:
        """Adds the table `trajectories`. Trackio renders cells as Markdown: texts are code, which it leaves."""
        rows = [[*row[:-2], as_code(row[-2]), as_code(row[-1])] for row in turn_rows(iteration, records)]
        self._run.log({"trajectories": self._table(columns=list(COLUMNS), data=rows)}, step=iteration)

    def close(self) -> None:
        """Waits until all is written."""
        from trackio import context_vars

        with _quiet():
            self._run.finish()
        if context_vars.current_run.get() is self._run:
            # Else Trackio would end it a second time when the process does.
            context_vars.current_run.set(None)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps Trackio from printing, and from asking the Hugging Face Hub whose the token in the environment is."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        constants.HF_HUB_OFFLINE = before
