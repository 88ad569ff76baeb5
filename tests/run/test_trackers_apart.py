"""MLflow and Trackio themselves, offline, in a process whose packages `make trackers` put beside the project's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.trackers
TOP = Path(__file__).parents[2]
FOLDER = TOP / ".trackers"
SECRET = "sesame-open-4711"
_BEFORE = """
import json, socket, sys
from pathlib import Path

def connect(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6):
        raise AssertionError(f"a tracker asks the network: {address}")
    return real(self, address)

real, socket.socket.connect = socket.socket.connect, connect
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.log import RunLog
from rllib_ragen.run.trackers.registry import check_trackers, open_trackers, ways_to_see
from tests.report.build import played

def sit(folder, name, start, iterations):
    config = RunConfig(trackers=[name])
    check_trackers(config.trackers)
    log = RunLog(folder, start)
    log.trackers = open_trackers(config, folder, start=start, group="mine", history=list, say=print)
    for i in iterations:
        sampled = [played("7", ["![](http://x)"], 1.0)]
        log.train(i, 1.0, {"success": i / 10, "win_rate_a_vs_b (x)": 1.0}, sampled, [None])
        log.evaluation(i, "val", True, {"success": 0.5}, {})
    log.close()
    return ways_to_see(config, folder)

folder = Path(sys.argv[1])
"""
_MLFLOW = """
sit(folder, "mlflow", 0, [1, 2])
(said,) = sit(folder, "mlflow", 2, [3])
import mlflow
from mlflow import MlflowClient
mlflow.set_tracking_uri(said.split()[-1])
client = MlflowClient(tracking_uri=said.split()[-1])
experiment = client.get_experiment_by_name("rllib_ragen")
runs = client.search_runs([experiment.experiment_id])
run = runs[0]
curve = [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "rollout/success")]
table = client.load_table(experiment.experiment_id, "trajectories/from_000000.json", [run.info.run_id])
found = {
    "runs": len(runs), "curve": curve, "status": run.info.status, "sweep": run.data.tags["sweep"],
    "lr": run.data.params["learner.lr"], "metrics": sorted(run.data.metrics), "reply": table["reply"][0],
    "iterations": list(table["iteration"]),
}
print(json.dumps(found))
"""
_TRACKIO = """
sit(folder, "trackio", 0, [1, 2])
(said,) = sit(folder, "trackio", 2, [3])
assert said == "trackio show --project rllib_ragen"
from trackio.api import Api
from trackio.sqlite_storage import SQLiteStorage
runs = list(Api().runs("rllib_ragen"))
logs = SQLiteStorage.get_logs("rllib_ragen", runs[0].name, run_id=runs[0].id)
curve = [(row["step"], row["rollout/success"]) for row in logs if "rollout/success" in row]
(table,) = [row["trajectories"] for row in logs if "trajectories" in row and row["step"] == 3]
config = runs[0].config
found = {
    "runs": len(runs), "curve": curve, "sweep": config["_Group"], "lr": config["learner"]["lr"],
    "reply": table["_value"][0]["reply"], "evaluations": sum("val_greedy/success" in row for row in logs),
}
print(json.dumps(found))
"""


def read_back(tmp_path: Path, program: str) -> dict[str, Any]:
    """What a process with the real package finds in the record that it has just written, in two sittings."""
    assert FOLDER.is_dir(), "`make trackers` installs the packages"
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW_", "TRACKIO_"))}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(FOLDER), str(TOP)]),
        "TRACKIO_DIR": str(tmp_path / "trackio"),
        "HF_TOKEN": SECRET,
        "HF_HOME": str(tmp_path / "hf"),
    }
    run = tmp_path / "run"
    run.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _BEFORE + program, str(run)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "INFO" not in done.stderr
    (line,) = done.stdout.splitlines()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    found: dict[str, Any] = json.loads(line)
    assert found.pop("runs") == 1, "a run that goes on is one record"
    assert found.pop("curve") == [[1, 0.1], [2, 0.2], [3, 0.3]]
    assert (found.pop("sweep"), float(found.pop("lr"))) == ("mine", 1e-4)
    return found


def test_mlflow_keeps_the_run_in_a_store_of_its_folder(tmp_path: Path) -> None:
    found = read_back(tmp_path, _MLFLOW)
    assert found["status"] == "FINISHED"
    assert {"rollout/success", "val_greedy/success", "games/win_rate_a_vs_b _x_"} <= set(found["metrics"])
    assert (found["reply"], found["iterations"]) == ("![](http://x)", [1, 2, 3])
    assert (tmp_path / "run" / "mlflow" / "mlflow.db").is_file()


def test_trackio_keeps_the_run_on_this_machine_and_renders_nothing_that_a_model_says(tmp_path: Path) -> None:
    found = read_back(tmp_path, _TRACKIO)
    assert found["evaluations"] == 3
    assert found["reply"] == "    ![](http://x)"
