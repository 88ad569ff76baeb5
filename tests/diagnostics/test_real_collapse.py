"""One run that learns and one that is made to break, live: the alarms know them apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.run.test_run import command

pytestmark = pytest.mark.slow
SOKOBAN = [
    *("--env", "sokoban", "--engine", "hf", "--num-groups", "8", "--group-size", "4", "--iterations", "15"),
    *("--algorithm", "rloo", "--set", "learner.lr=1e-4", "learner.num_epochs=1", "learner.num_minibatches=1"),
    *("env.task.min_solution_steps=null", "env.max_actions=10", "learner.lr_schedule=constant", "eval.interval=0"),
    *("eval.num_test_instances=0", "learner.torch_threads=1", "diagnostics.interval=10"),
]
BROKEN = [
    *("learner.lr=0.01", "learner.grad_clip=1e6", "learner.clip_low=0.99", "learner.clip_high=100"),
    *("learner.clip_dual=null", "learner.entropy_coeff=0", "alarms.repetition=stop"),
]
"""A hundred times the learning rate, and nothing that holds a step back."""


def played(tmp_path: Path, *changes: str) -> tuple[list[dict[str, object]], list[dict[str, object]], str]:
    """(training rows, alarms, output) of a run."""
    code, output = command(*SOKOBAN, *changes, "--results-dir", str(tmp_path), "--name", "run")
    assert code == 0, output
    rows, alarms = (
        [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
        for path in (tmp_path / "run" / "progress.jsonl", tmp_path / "run" / "alarms.jsonl")
    )
    return rows, alarms, output


def test_a_run_that_learns_sets_nothing_off(tmp_path: Path) -> None:
    rows, alarms, output = played(tmp_path)
    assert len(rows) == 15 and alarms == []
    assert "because all 15 iterations are done" in output


def test_a_run_that_breaks_is_told_and_ended(tmp_path: Path) -> None:
    rows, alarms, output = played(tmp_path, *BROKEN)
    assert {"length_blowup", "repetition"} <= {alarm["alarm"] for alarm in alarms}
    assert "because alarms.repetition=stop and there is a repetition" in output
    assert len(rows) < 15
