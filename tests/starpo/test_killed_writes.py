"""kill -9 while a checkpoint is being written: the one before stays whole, and nothing half-written has its name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]
KILLS = 12


def test_R1_a_kill_while_writing_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.run.checkpoint_writer", str(tmp_path), str(KILLS)],
        capture_output=True, text=True, cwd=TOP,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["torn"] > KILLS / 3, "too few kills hit a write for this to show anything"
    assert len(result["found"]) == KILLS
    assert result["found"] == sorted(set(result["found"])), "every writer's last whole checkpoint is there"
    assert result["left"] <= 3, "two are kept; the third waits for its turn to be removed"
