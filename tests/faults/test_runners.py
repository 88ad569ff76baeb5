"""Env runners that freeze, grow or die again and again, with real processes; tests/starpo/test_runners.py has more."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray

from rllib_ragen.faults.exit_codes import WorkersLost
from rllib_ragen.starpo.algorithm import StarPO
from tests.faults.build import TOP
from tests.patience import PATIENCE_S
from tests.starpo.build import digits_config

pytestmark = pytest.mark.usefixtures("local_ray")
HANG_TIMEOUT_S = 20
"""Ten times what a runner's beats may be apart, so that one which only lacks a core does not count as hung."""


def play(model: Path, mishaps: dict[str, Any], iterations: int, **fault: Any) -> tuple[StarPO, list[dict[str, float]]]:
    """Iterations with one runner whose environments have mishaps; the algorithm, stopped, and the metrics of each."""
    algo = digits_config(model, env=mishaps).env_runners(num_env_runners=1).fault_tolerance(**fault).build_algo()
    try:
        return algo, [algo.train()["starpo"] for _ in range(iterations)]
    finally:
        algo.stop()


def test_L1_a_frozen_runner_is_replaced_and_nothing_is_lost(model: Path, tmp_path: Path) -> None:
    # No time limit of an environment helps: the whole process stands still.
    _, (first, second) = play(model, {"freeze_once": str(tmp_path / "frozen")}, 2, hang_timeout_s=HANG_TIMEOUT_S)
    assert (tmp_path / "frozen").exists()
    assert first["num_hung_runners"] == first["num_lost_runners"] >= 1
    assert first["num_replayed"] >= 16
    assert (first["num_groups"], first["num_failed"]) == (4, 0)
    assert (second["num_groups"], second["num_failed"]) == (4, 0)


@pytest.mark.parametrize(("number", "hung"), [(signal.SIGSTOP, 1), (signal.SIGKILL, 0)])
def test_L1_a_runner_lost_while_it_takes_weights_is_counted(model: Path, number: int, hung: int) -> None:
    algo = (
        digits_config(model).env_runners(num_env_runners=2).fault_tolerance(hang_timeout_s=HANG_TIMEOUT_S).build_algo()
    )
    try:
        pids = algo.env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)
        sync = algo._sync_weights

        def hurt_and_sync() -> None:
            algo._sync_weights = sync
            os.kill(pids[0], number)
            sync()

        algo._sync_weights = hurt_and_sync
        first, second = (algo.train()["starpo"] for _ in range(2))
        assert (first["num_lost_runners"], first["num_hung_runners"], first["num_replayed"]) == (1, hung, 0)
        assert (second["num_lost_runners"], second["num_groups"], second["policy_lag"]) == (0, 4, 0)
    finally:
        algo.stop()


def test_L6_an_environment_out_of_memory_costs_its_own_episode(model: Path) -> None:
    # 16 episodes of 2 steps of 100 MiB, where 2 GiB may be kept.
    _, (first, second) = play(model, {"leak_mib": 100, "limit_mib": 2048}, 2)
    assert 0 < first["num_failed"] < 16
    assert second["num_failed"] == 16, "what leaked is never given back, so all fail"
    assert (first["num_lost_runners"], second["num_lost_runners"]) == (0, 0), "the runner itself lives"


def test_L6_a_runner_that_grows_is_restarted_between_batches(model: Path) -> None:
    _, metrics = play(model, {"leak_mib": 50}, 3, max_runner_gib=1.5)
    assert [row["num_recycled_runners"] for row in metrics] == [1, 1, 1]
    assert all(row["runner_gib"] > 1.5 for row in metrics), "each batch leaks 1.6 GiB"
    assert metrics[2]["runner_gib"] < 3, "and the next begins without it"
    assert all((row["num_groups"], row["num_failed"], row["num_replayed"]) == (4, 0, 0) for row in metrics)


@pytest.mark.slow
def test_runners_that_die_again_and_again_end_the_run(model: Path) -> None:
    with pytest.raises(WorkersLost, match="env runners died in 6 rounds of sampling in a row"):
        play(model, {"die_always": True}, 1)


@pytest.mark.slow
@pytest.mark.vllm
def test_a_dead_vllm_engine_is_replaced(model: Path) -> None:
    config = digits_config(model).env_runners(num_env_runners=1).vllm(separate_process=True)
    algo = config.rollout(engine="vllm", max_concurrent=16).build_algo()
    try:
        algo.train()
        (pid,) = algo.env_runner_group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)
        cores = [one for one in psutil.Process(pid).children(recursive=True) if "EngineCore" in " ".join(one.cmdline())]
        assert cores
        for core in cores:
            core.kill()
        found = algo.train()["starpo"]
        assert (found["num_lost_runners"], found["num_groups"], found["policy_version"]) == (1, 4, 2)
        assert algo.train()["starpo"]["logprob_gap_max"] < 1e-4, "the new engine has the current weights"
    finally:
        algo.stop()


OOM = """
import json, os, sys
from pathlib import Path
import psutil
from rllib_ragen.run.start_ray import start_local
from tests.starpo.build import digits_config
memory = psutil.virtual_memory()
share = (memory.total - memory.available + (3 << 30)) / memory.total
os.environ["RAY_memory_usage_threshold"] = str(share)
os.environ["RAY_memory_monitor_refresh_ms"] = "100"
start_local(4)
algo = digits_config(Path(sys.argv[1]), env={"leak_mib": 300}).env_runners(num_env_runners=1).build_algo()
try:
    found = algo.train()["starpo"]
    print(json.dumps({"lost": found["num_lost_runners"], "groups": found["num_groups"]}))
except Exception as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
algo.stop()
"""


@pytest.mark.slow
def test_a_runner_that_rays_memory_monitor_kills_is_counted_or_ends_the_run(model: Path) -> None:
    """16 episodes leak 9.6 GiB, and Ray kills the runner after about 3: every time, so the run cannot go on."""
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", OOM, str(model)], capture_output=True, text=True, cwd=TOP, timeout=PATIENCE_S
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"error": "WorkersLost: env runners died in 6 rounds of sampling in a row; see their logs"}, done
    assert ray.is_initialized()
