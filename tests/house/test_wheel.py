"""The installed package: what the wheel adds, and that it works where the user's own folders have the same names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

from rllib_ragen import __version__
from rllib_ragen.config.commands import COMMANDS
from tests.patience import PATIENCE_S

TOP = Path(__file__).parents[2]
OURS = ("rllib_ragen", "ragen_envs")
NOT_SHIPPED = shutil.ignore_patterns(".*", "results", "build", "dist", "*.egg-info", "__pycache__")
TINY = [
    *("--iterations", "1", "--num-groups", "2", "--group-size", "2", "--engine", "hf"),
    *("--set", "eval.interval=0", "eval.num_test_instances=0", "learner.torch_threads=1", "learner.num_minibatches=1"),
]


@dataclass(frozen=True)
class Installed:
    """A folder with the installed wheel, and one of a user who has packages of the same names as the repository's."""

    wheel: Path
    site: Path
    user: Path

    def start(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs Python in the user's folder; only the installed package is on its path."""
        environment = {**os.environ, "PYTHONPATH": str(self.site)}
        return subprocess.run(
            [sys.executable, *words], cwd=self.user, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    # Building leaves folders behind: not in the repository.
    shutil.copytree(TOP, folder / "source", symlinks=True, ignore=NOT_SHIPPED)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    local = ["--no-deps", "--no-index", "--quiet"]
    build = [*pip, "wheel", "--no-build-isolation", *local, "--wheel-dir", str(folder), str(folder / "source")]
    subprocess.run(build, check=True, timeout=PATIENCE_S)
    (wheel,) = folder.glob("*.whl")
    subprocess.run(
        [*pip, "install", *local, "--target", str(folder / "site"), str(wheel)], check=True, timeout=PATIENCE_S
    )
    user = folder / "user"
    for name in ("envs", "tests", "tune_configs", "benchmarks"):
        (user / name).mkdir(parents=True)
        (user / name / "__init__.py").write_text(f"raise ImportError('the user\\'s own {name}')\n")
    return Installed(wheel, folder / "site", user)


def test_the_wheel_adds_two_names_and_what_they_need(installed: Installed) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == set(OURS)
    sources = {
        str(path.relative_to(TOP)).replace("envs/", "ragen_envs/", 1) if path.is_relative_to(TOP / "envs")
        else str(path.relative_to(TOP))
        for folder in ("envs", "rllib_ragen") for path in (TOP / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }  # fmt: skip
    settings = {f"rllib_ragen/{path.relative_to(TOP)}" for path in (TOP / "tune_configs").rglob("*.yaml")}
    assert sources | settings <= set(names), "a file of the repository is not installed"


def test_the_metadata_says_what_a_package_index_shows(installed: Installed) -> None:
    archive = zipfile.ZipFile(installed.wheel)
    (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    said = message_from_bytes(archive.read(path))
    assert said["Name"] == "rllib-ragen"
    assert said["Version"] == __version__
    assert said["Description-Content-Type"] == "text/markdown"
    assert "StarPO" in str(said.get_payload())
    assert said["License-Expression"] == "Apache-2.0"
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= {
        url.partition(",")[0] for url in said.get_all("Project-URL", [])
    }
    assert "Typing :: Typed" in said.get_all("Classifier", [])


def test_what_runs_is_what_was_installed(installed: Installed) -> None:
    done = installed.start("-c", "import rllib_ragen, ragen_envs; print(rllib_ragen.__file__, ragen_envs.__file__)")
    assert done.returncode == 0, done.stderr
    assert all(Path(path).is_relative_to(installed.site) for path in done.stdout.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_helps_beside_folders_of_the_same_names(installed: Installed, command: str) -> None:
    done = installed.start("-m", f"rllib_ragen.{command}", "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout


def test_the_console_script_starts_every_command(installed: Installed) -> None:
    script = installed.site / "bin" / "rllib-ragen"
    done = installed.start(str(script))
    assert done.returncode == 2
    assert re.findall(r"^  (\w+) ", done.stdout, re.MULTILINE) == list(COMMANDS)
    unknown = installed.start(str(script), "trian")
    assert unknown.returncode == 2
    assert "unknown command 'trian'; allowed: run, sweep" in unknown.stderr
    helped = installed.start(str(script), "evaluate", "--help")
    assert helped.returncode == 0 and "RUN_OR_MODEL" in helped.stdout
    there = "import sys; from rllib_ragen.config.commands import main; main(['report', '--help'])"
    assert installed.start("-c", there).returncode == 0


@pytest.mark.slow
def test_a_run_and_a_yaml_of_the_users_beside_folders_of_the_same_names(installed: Installed) -> None:
    done = installed.start("-m", "rllib_ragen.run", "--env", "bandit", *TINY, "--num-env-runners", "1", "--name", "one")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (installed.user / "results" / "one" / "model" / "model.safetensors").is_file()
    settings = yaml.safe_load((installed.user / "results" / "one" / "config.yaml").read_text())
    settings |= {"name": "two", "results_dir": "results"}  # relative to the file, wherever that is
    (installed.user / "mine.yaml").write_text(yaml.safe_dump(settings))
    script = str(installed.site / "bin" / "rllib-ragen")
    done = installed.start(script, "run", "--config", "mine.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = [(installed.user / "results" / name / "progress.jsonl").read_text() for name in ("one", "two")]
    assert '"iteration": 1' in first and '"iteration": 1' in second
