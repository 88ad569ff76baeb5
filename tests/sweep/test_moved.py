"""A sweep whose folder has a name that shells and URLs stumble over, with a relative model, is moved and goes on."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from rllib_ragen.config.yaml_text import dump_yaml, parse_yaml
from rllib_ragen.models.folder import model_folder
from tests.sweep.test_sweep import ITERATIONS, SWEEP, at_first, command, iterations_of


@pytest.mark.slow
def test_D_a_killed_sweep_is_moved_and_finished(tmp_path: Path) -> None:
    shutil.copytree(model_folder("tiny"), tmp_path / "model")
    place = tmp_path / "it's 50% #1? {x}"
    place.mkdir()
    base = {**SWEEP["base"], "model": {"path": "model"}, "env": {**SWEEP["base"]["env"], "prompt_style": "brief"}}
    (tmp_path / "tiny.yaml").write_text(dump_yaml({**SWEEP, "base": base}))
    kill = at_first("done", lambda pid: os.kill(pid, signal.SIGKILL))
    code, lines = command(tmp_path / "tiny.yaml", "--results-dir", place, act=kill)
    assert code == -signal.SIGKILL, "\n".join(lines)
    moved = (place / "tiny").rename(tmp_path / "moved away")
    place.rmdir()
    code, lines = command("--resume", moved)
    assert code == 0, "\n".join(lines)
    assert list(iterations_of(moved)) == [list(range(1, ITERATIONS + 1))] * 3
    assert not place.exists(), "nothing is written where the folder was"
    for config in moved.glob("runs/*/config.yaml"):
        said = parse_yaml(config.read_text())
        assert (said["results_dir"], said["model"]["path"]) == ("..", str(tmp_path / "model"))
    (best,) = (found[1] for line in lines if (found := re.search(r"\(python -m rllib_ragen.run (.*)\)$", line)))
    assert shlex.split(best) == ["--config", str(moved / "best.yaml")]
    assert "results_dir" not in parse_yaml((moved / "best.yaml").read_text())
