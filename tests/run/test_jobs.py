"""Runs and sweeps as Ray jobs on a real head with its dashboard and with token authentication, as Ray sets it up."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from rllib_ragen.run.__main__ import main as run
from tests.doors.build import ESTIMATOR, LOSS, TOP, WORLD, write_package
from tests.patience import PATIENCE_S, wait_until

pytestmark = [pytest.mark.jobs, pytest.mark.slow]
"""A head with its dashboard, and a driver for each job: minutes in all."""

RAY = (sys.executable, "-m", "ray.scripts.scripts")
SMALL = ("--env", "bandit", "--engine", "hf", "--num-groups", "2", "--group-size", "2")
NO_EVALUATION = ("--set", "eval.interval=0", "eval.num_test_instances=0")
ENDLESS = (*SMALL, "--iterations", "1000000", *NO_EVALUATION, "checkpoint_interval=4")


@dataclass(frozen=True)
class Head:
    """A head on loopback, and a shell that may use it."""

    address: str
    environment: dict[str, str]
    empty: Path
    """The submitter's working directory."""
    gcs: str
    """What RAY_ADDRESS is for a driver on this machine."""

    def ray(self, *arguments: str) -> str:
        """What a ray command says."""
        done = subprocess.run(
            [*RAY, *arguments], env=self.environment, cwd=self.empty, capture_output=True, text=True, timeout=PATIENCE_S
        )
        return done.stdout + done.stderr

    def submit(
        self,
        name: str,
        *command: str,
        options: tuple[str, ...] = (),
        act: Callable[[str], None] | None = None,
        directory: Path | None = None,
    ) -> tuple[int, str]:
        """(exit code, output) of `ray job submit` from `directory` (None: the empty one); `act` sees each line."""
        words = [*RAY, "job", "submit", "--submission-id", name, "--working-dir", ".", *options, "--", *command]
        process = subprocess.Popen(
            words,
            env=self.environment,
            cwd=directory or self.empty,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if act is not None:
                act(line)
        return process.wait(), "".join(lines)

    def stop_in_iteration_7(self, name: str) -> Callable[[str], None]:
        """For `submit`: the job would never end if its lines came only afterwards."""

        def act(line: str) -> None:
            if re.match(r"iteration +6/", line):
                self.ray("job", "stop", name)

        return act


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    home = tmp_path_factory.mktemp("home")
    # Ray's socket paths must stay below 108 characters.
    session = tempfile.mkdtemp(prefix="ray", dir="/tmp")
    dashboard, agent, client, gcs = free_ports(4)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "HOME": str(home), "PATH": path, "RAY_USAGE_STATS_ENABLED": "0"}
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE"):
        environment.pop(name, None)
    subprocess.run([*RAY, "get-auth-token", "--generate"], env=environment, check=True, stdout=subprocess.DEVNULL)
    words = (
        *(*RAY, "start", "--head", "--block", "--num-cpus=3", "--num-gpus=0", f"--temp-dir={session}"),
        *(
            "--node-ip-address=127.0.0.1",
            f"--port={gcs}",
            "--dashboard-host=127.0.0.1",
            f"--dashboard-port={dashboard}",
        ),
        *(f"--dashboard-agent-listen-port={agent}", f"--ray-client-server-port={client}"),
    )
    log = home / "head.log"
    process = psutil.Popen(words, env=environment, stdout=log.open("w"), stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{dashboard}"
    try:
        wait_until(lambda: status(address) or process.poll() is not None, "the head answers")
        assert process.poll() is None, log.read_text()
        submitter = {**environment, "RAY_AUTH_MODE": "token", "RAY_API_SERVER_ADDRESS": address}
        yield Head(address, submitter, tmp_path_factory.mktemp("empty"), f"127.0.0.1:{gcs}")
    finally:
        processes = [process, *process.children(recursive=True)]
        process.terminate()
        for one in psutil.wait_procs(processes, timeout=15)[1]:
            one.kill()
        shutil.rmtree(session, ignore_errors=True)


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [int(one.getsockname()[1]) for one in sockets]


def status(address: str) -> int:
    """Of a request without a token."""
    try:
        with urllib.request.urlopen(f"{address}/api/jobs/", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def trained(folder: Path) -> list[int]:
    return [json.loads(line)["iteration"] for line in (folder / "progress.jsonl").read_text().splitlines()]


def test_nobody_submits_without_the_token(head: Head) -> None:
    assert status(head.address) == 401


def test_a_run_is_a_job_from_an_empty_directory(head: Head, tmp_path: Path) -> None:
    command = ("python", "-m", "rllib_ragen.run", *SMALL, "--iterations", "3", "--name", "job")
    code, output = head.submit("whole", *command, "--results-dir", str(tmp_path), *NO_EVALUATION)
    assert code == 0, output
    assert len(re.findall(r"^iteration [123]/3  success ", output, re.MULTILINE)) == 3
    assert "Job 'whole' succeeded" in output
    assert "Traceback" not in output
    folder = tmp_path / "job"
    assert trained(folder) == [1, 2, 3]
    for name in ("config.yaml", "progress.csv", "trajectories.jsonl", "model/model.safetensors"):
        assert (folder / name).is_file()
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["iteration_000003"]


def test_a_stopped_job_has_saved_and_goes_on_anywhere(head: Head, tmp_path: Path) -> None:
    command = ("python", "-m", "rllib_ragen.run", *ENDLESS, "--results-dir", str(tmp_path), "--name", "stopped")
    # A busy machine may need more than Ray's 3 s for one iteration and a checkpoint.
    patient = ("--runtime-env-json", json.dumps({"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "60"}}))
    act = head.stop_in_iteration_7("graceful")
    _, output = head.submit("graceful", *command, options=patient, act=act)
    folder = tmp_path / "stopped"
    assert "SIGTERM: stopping after the current step" in output
    assert f"and saved. To go on: python -m rllib_ragen.run --resume {folder}" in output
    assert "was stopped" in head.ray("job", "status", "graceful")
    last = trained(folder)[-1]
    assert (folder / "checkpoints" / f"iteration_{last:06}").is_dir()
    assert run(["--resume", str(folder), "--iterations", str(last)]) == 0, "all were saved: tests and export are left"
    resume_locally(folder, last + 1)


@pytest.mark.slow
def test_a_job_that_is_killed_goes_on_from_its_last_interval(head: Head, tmp_path: Path) -> None:
    """What `ray job stop` does to an iteration that is longer than RAY_JOB_STOP_WAIT_TIME_S."""
    command = ("python", "-m", "rllib_ragen.run", *ENDLESS, "--results-dir", str(tmp_path), "--name", "killed")
    hasty = ("--runtime-env-json", json.dumps({"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "0"}}))
    _, output = head.submit("killed", *command, options=hasty, act=head.stop_in_iteration_7("killed"))
    assert "and saved" not in output
    assert "was stopped" in head.ray("job", "status", "killed")
    folder = tmp_path / "killed"
    saved = sorted(path.name for path in (folder / "checkpoints").glob("iteration_*"))
    assert saved
    assert int(saved[-1][-6:]) % 4 == 0
    resume_locally(folder, trained(folder)[-1] + 1)


def resume_locally(folder: Path, iterations: int) -> None:
    """Without the cluster."""
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    words = [sys.executable, "-m", "rllib_ragen.run", "--resume", str(folder), "--iterations", str(iterations)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=folder, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert trained(folder) == list(range(1, iterations + 1)), "each iteration is there once"


@pytest.mark.slow
def test_a_sweep_is_a_job_whose_file_travels_with_the_working_directory(head: Head, tmp_path: Path) -> None:
    sweep = {
        "name": "tiny",
        "base": {
            "env": {"name": "bandit"},
            "rollout": {"num_groups": 2, "group_size": 2, "engine": "hf"},
            "iterations": 1,
            "eval": {"interval": 1, "num_instances": 2, "num_test_instances": 0},
        },
        "space": {"learner.lr": {"choice": [1e-4, 2e-4]}},
        "sampler": "grid",
        "trials": 2,
        "objectives": ["return"],
    }
    (head.empty / "tiny.yaml").write_text(yaml.safe_dump(sweep))
    code, output = head.submit(
        "sweep", "python", "-m", "rllib_ragen.sweep", "tiny.yaml", "--results-dir", str(tmp_path)
    )
    assert code == 0, output
    assert output.count("  done") == 2
    assert (tmp_path / "tiny" / "report.html").is_file()
    assert (tmp_path / "tiny" / "best.yaml").is_file()


def test_code_of_ones_own_travels_with_the_working_directory_and_so_does_a_checkout(head: Head, tmp_path: Path) -> None:
    """The job's actors import the user's package, and this project itself where the directory is a checkout of it."""
    checkout = tmp_path / "checkout"
    skipped = shutil.ignore_patterns(".*", "results", "build", "tests", "docs", "__pycache__", "*.egg-info")
    shutil.copytree(TOP, checkout, symlinks=True, ignore=skipped)
    assert (checkout / "ragen_envs").is_symlink()
    write_package(checkout)
    where = "import os, rllib_ragen, ragen_envs; print(rllib_ragen.__file__, ragen_envs.__file__, os.getcwd())"
    code, output = head.submit("where", "python", "-c", where, directory=checkout)
    assert code == 0, output
    ours, envs, there = next(line for line in output.splitlines() if "ragen_envs/__init__" in line).split()
    assert (ours, envs) == (f"{there}/rllib_ragen/__init__.py", f"{there}/ragen_envs/__init__.py")
    command = ("python", "-m", "rllib_ragen.run", *SMALL, "--env", WORLD, "--estimator", ESTIMATOR, "--name", "own")
    words = (*command, "--num-env-runners", "1", "--iterations", "1", "--results-dir", str(tmp_path / "results"))
    code, output = head.submit("own", *words, *NO_EVALUATION, directory=checkout)
    assert code == 0, output
    assert trained(tmp_path / "results" / "own") == [1]


def test_a_cluster_without_a_job_is_sent_the_code_that_paths_name(head: Head, tmp_path: Path) -> None:
    """The package lies neither in the current folder nor on the workers' path: only the driver's PYTHONPATH has it."""
    user = write_package(tmp_path / "user")
    (tmp_path / "here").mkdir()
    environment = {**head.environment, "RAY_ADDRESS": head.gcs, "PYTHONPATH": f"{TOP}{os.pathsep}{user}"}
    words = ["-m", "rllib_ragen.run", *SMALL, "--env", WORLD, "--num-env-runners", "1", "--iterations", "1"]
    loss = ["--set", "eval.interval=0", "eval.num_test_instances=0", f"learner.loss={LOSS}", "learner.num_learners=1"]
    done = subprocess.run(
        [sys.executable, *words, "--results-dir", str(tmp_path / "results"), "--name", "sent", *loss],
        env=environment, cwd=tmp_path / "here", capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert trained(tmp_path / "results" / "sent") == [1]


def test_results_in_a_jobs_working_directory_are_refused(head: Head) -> None:
    code, output = head.submit("lost", "python", "-m", "rllib_ragen.run", *SMALL)
    assert code != 0
    assert re.search(r"results_dir: '.*results' would be deleted with the working directory of this Ray job", output)
