"""A finished sweep's folder made by the code that makes it, without a run: for the tests of its page."""

from __future__ import annotations

import json
from pathlib import Path

from rllib_ragen.sweep.spec import SweepSpec, read_sweep
from rllib_ragen.sweep.study import SweepStudy, result_of
from rllib_ragen.sweep.trial import run_folder_of


def finished_sweep(folder: Path) -> tuple[SweepSpec, SweepStudy, Path]:
    """Six configurations of two dimensions and two seeds each, one of which failed."""
    tree = {
        "name": "page",
        "question": "Which learning rate, and how wide a clip? <b>not bold</b>",
        "base": {"env": {"name": "bandit"}, "iterations": 40, "eval": {"interval": 10}},
        "space": {"learner.lr": {"loguniform": [1e-5, 1e-3]}, "learner.clip_high": {"choice": [0.2, 0.28]}},
        "trials": 6,
        "seeds": [0, 1],
    }
    spec = read_sweep(tree)
    study = SweepStudy(spec, folder)
    for number in range(6):
        asked = study.ask()
        assert asked.number == number
        for seed in spec.seeds:
            run = run_folder_of(folder, number, seed)
            run.mkdir(parents=True)
            successes = {i: min(1.0, 0.2 + 0.01 * i + 0.02 * number + 0.05 * seed) for i in range(0, 41, 10)}
            rows = [
                {"iteration": i, "split": "val", "greedy": greedy, "success": success}
                for i, success in successes.items()
                for greedy in (False, True)
            ]
            (run / "progress.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            error = "crashed; see tune/x/error.txt" if (number, seed) == (5, 1) else ""
            stopped = "scheduler asha at iteration 10" if number == 4 else ""
            result = {"success": successes[40], "iteration": 40, "finished": True}
            study.tell(number, seed, result_of(result, spec, stopped, error))
    return spec, study, folder
