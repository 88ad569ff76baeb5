"""MLflow: metrics and tables in a local store in the run's folder, or at MLFLOW_TRACKING_URI."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.config.load import flatten
from rllib_ragen.config.printable import word
from rllib_ragen.run.trackers.table import COLUMNS, turn_rows
from rllib_ragen.run.trackers.tracker import PROJECT, TrackedRun

_URI = "MLFLOW_TRACKING_URI"
_LONGEST = 500
"""Characters of a parameter that every store of MLflow takes."""
_MOST_METRICS, _MOST_PARAMS = 1_000, 100
"""Entries that MLflow takes in one call."""
_TABLE_LENGTH = 100
"""Iterations of one table: MLflow reads and writes all of it for every row, and keeps the names of all tables in one
tag of 8,000 characters."""


def check() -> None:
    """Checks nothing: whether MLFLOW_TRACKING_URI leads anywhere only a server tells, when the run opens its record."""


def how_to_see(folder: Path) -> str:
    """Says how one sees what is there of the run in `folder`."""
    if os.environ.get(_URI):
        return f"MLflow, at {_URI}"
    return f"mlflow ui --backend-store-uri {word(local_store(folder))}"


def local_store(folder: Path) -> str:
    """Returns the URI of the store in a run's folder: a file of SQLite, MLflow's own advice for one user."""
    return f"sqlite:///{folder / 'mlflow' / 'mlflow.db'}"


class MlflowTracker:
    """Uses MLflow's client alone: no global run that a user's own code could meet."""

    def __init__(self, run: TrackedRun) -> None:
        # MLflow would tell its makers that, and how, it is used.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        logging.getLogger("mlflow").setLevel(logging.WARNING)

        remote = os.environ.get(_URI)
        if not remote:
            (run.folder / "mlflow").mkdir(exist_ok=True)
        self._metric = Metric
        self._client = MlflowClient(tracking_uri=remote or local_store(run.folder))
        self.key = run.key or self._begin(run, local=not remote)
        if run.key:
            self._client.update_run(self.key, status="RUNNING")
        # MLflow takes no brackets in a name: `envs[0].name` is `envs.0.name` there.
        told = {key.replace("[", ".").replace("]", ""): value for key, value in flatten(run.settings).items()}
        params = {key: str(value)[:_LONGEST] for key, value in told.items()}
        known = self._client.get_run(self.key).data.params
        new = [Param(key, value) for key, value in params.items() if key not in known]
        for first in range(0, len(new), _MOST_PARAMS):
            self._client.log_batch(self.key, params=new[first : first + _MOST_PARAMS])

    def _begin(self, run: TrackedRun, *, local: bool) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT
        found = self._client.get_experiment_by_name(name)
        if found is None:
            place = (run.folder / "mlflow" / "artifacts").as_uri() if local else None
            experiment = self._client.create_experiment(name, artifact_location=place)
        else:
            experiment = found.experiment_id
        tags = {} if run.group is None else {"sweep": run.group}
        made = self._client.create_run(experiment, run_name=run.folder.name, tags=tags)
        return str(made.info.run_id)

    def log(self, iteration: int, values: Mapping[str, float]) -> None:
        """Adds the numbers at step `iteration`."""
        now = time.time_ns() // 1_000_000
        # Everything else is refused by MLflow, which knows names as they are in paths.
        found = [self._metric(re.sub(r"[^\w\-./ ]", "_", key), value, now, iteration) for key, value in values.items()]
        for first in range(0, len(found), _MOST_METRICS):
            self._client.log_batch(self.key, metrics=found[first : first + _MOST_METRICS])

    def log_trajectories(self, iteration: int, records: Sequence[Tree]) -> None:
        """Adds to the table `trajectories/from_000000.json` or one of later iterations, which `load_table` reads."""
        rows = turn_rows(iteration, records)
        columns = {name: [row[index] for row in rows] for index, name in enumerate(COLUMNS)}
        first = iteration // _TABLE_LENGTH * _TABLE_LENGTH
        self._client.log_table(self.key, columns, f"trajectories/from_{first:06d}.json")

    def close(self) -> None:
        """Marks the run as ended; one that goes on is marked as running again."""
        self._client.set_terminated(self.key)
