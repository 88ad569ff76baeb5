"""Kills processes that write checkpoints: `python -m tests.run.checkpoint_writer FOLDER KILLS`.

Prints JSON: how many kills left a half-written folder, and which iteration could be read after each kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.models.folder import model_folder
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.starpo.checkpoint.manifest import read_manifest
from rllib_ragen.starpo.checkpoint.save import load_learner_state, save_checkpoint

MODULE = "default_policy"
SHAPE = (512, 1024)
FILES = 7
"""Of a checkpoint, at least."""


def state_of(iteration: int) -> dict[str, Any]:
    """A learner's state in which every number is the iteration's: 2 MiB of weights, twice that of moments."""
    array = np.full(SHAPE, iteration, np.float32)
    moments = {f"{name}/llm.weight": array.copy() for name in ("exp_avg", "exp_avg_sq")}
    return {
        "rl_module": {MODULE: {"llm.weight": array}},
        "optimizer": {f"{MODULE}_policy": {"module_id": MODULE, "state": moments}},
        "weights_seq_no": iteration,
        "skipped_in_a_row": {},
    }


def write_for_ever(folder: RunFolder, first: int) -> None:
    """Checkpoints of `first` and all iterations after it, of which the newest two are kept."""
    for iteration in range(first, 1_000_000):

        def save(path: Path, iteration: int = iteration) -> None:
            save_checkpoint(path, state_of(iteration), {"iteration": iteration}, {}, model_folder("tiny"))

        folder.save_checkpoint(iteration, save, keep=2)


def num_files(folder: Path) -> int:
    """Files below a folder that may vanish while it is looked at."""
    return sum(len(files) for _, _, files in os.walk(folder))


def check(folder: RunFolder) -> int:
    """The iteration of the newest checkpoint, all of which is as it was written."""
    newest = folder.newest_checkpoint()
    state = load_learner_state(newest.path)
    arrays = [state["rl_module"][MODULE]["llm.weight"], *state["optimizer"][f"{MODULE}_policy"]["state"].values()]
    assert all((array == newest.iteration).all() for array in arrays)
    assert read_manifest(newest.path)["progress"] == {"iteration": newest.iteration}
    return newest.iteration


def main(folder: RunFolder, kills: int) -> None:
    """Forks writers, kills each a little later than the one before, and reads what it left."""
    found, torn = [], 0
    for kill in range(kills):
        first = folder.checkpoints()[-1].iteration + 1 if folder.checkpoints() else 1
        child = os.fork()
        if child == 0:
            try:
                write_for_ever(folder, first)
            finally:
                os._exit(1)
        # Killed as soon as so many files of its second checkpoint can be seen.
        partial = folder.path / "checkpoints" / f"partial_iteration_{first + 1:06d}"
        while num_files(partial) <= kill % FILES and not (partial.parent / f"iteration_{first + 1:06d}").exists():
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "the writer ended by itself"
            time.sleep(0.0005)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        torn += any(folder.path.glob("checkpoints/partial_*"))
        found.append(check(folder))
    print(json.dumps({"torn": torn, "found": found, "left": len(folder.checkpoints())}))


if __name__ == "__main__":
    main(RunFolder.create(RunConfig(results_dir=Path(sys.argv[1])), "run"), int(sys.argv[2]))
