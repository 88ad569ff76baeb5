"""A run on a cluster of two nodes, one of which dies."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.slow


def test_a_run_outlives_a_node_and_plays_what_was_lost_again(tmp_path: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        # Two runners ask for a CPU each, and the head keeps room for the one that is lost.
        mortal = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "rllib_ragen.run", "--env", "bandit", "--engine", "hf", "--iterations", "12"),
                *("--num-groups", "2", "--group-size", "2", "--num-env-runners", "2"),
                *("--results-dir", str(tmp_path), "--name", "run"),
                *("--set", "eval.interval=0", "eval.num_test_instances=0"),
            ],
            env={**os.environ, "RAY_ADDRESS": cluster.address},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if re.match(r"iteration +3/", line):
                cluster.remove_node(mortal, allow_graceful=False)
        output = "".join(lines)
        assert process.wait() == 0, output
    finally:
        cluster.shutdown()
    assert re.search(r"^\d of 4 episodes were lost with their runners: played again", output, re.MULTILINE)
    rows = [json.loads(line) for line in (tmp_path / "run" / "progress.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == list(range(1, 13))
    assert [row["num_groups"] for row in rows] == [2.0] * 12
    assert [row["num_failed"] for row in rows] == [0.0] * 12
