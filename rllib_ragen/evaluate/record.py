"""What an evaluation leaves: evaluation.json, and trajectories.jsonl as runs have it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.evaluate.plan import Job
from rllib_ragen.rollout.trajectory_json import to_json
from rllib_ragen.run.evaluation import marks
from rllib_ragen.run.several import Scales
from rllib_ragen.starpo.checkpoint.versions import installed_versions
from rllib_ragen.types import Trajectory

FIGURES, TRAJECTORIES = "evaluation.json", "trajectories.jsonl"
FORMAT = 1
"""Number of the layout of evaluation.json: to be raised when readers could misread it."""


def place_of(jobs: Sequence[Job], out: Path | None) -> Path:
    """Returns a new folder: `out`, else in the one run's `evaluations/`, else in the results folder.

    Raises:
        ConfigError: it holds an evaluation already, or cannot be made.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    runs = {job.folder for job in jobs}
    (run,) = runs if len(runs) == 1 else (None,)
    if out is not None:
        place = out
    elif run is not None:
        place = run / "evaluations" / stamp
    else:
        place = jobs[0].config.results_dir / f"evaluation-{stamp}"
    if out is None:
        taken = [place, *(place.with_name(f"{place.name}-{number}") for number in range(2, 1_000))]
        place = next(one for one in taken if not one.exists())
    if (place / FIGURES).exists() or (place / TRAJECTORIES).exists():
        raise ConfigError(f"--out: {place} holds an evaluation already; give another folder")
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / TRAJECTORIES).touch()
    except OSError as error:
        raise ConfigError(f"--out: cannot write to {place}: {error.strerror}") from None
    return place


class EvaluationRecord:
    """Writes as the evaluation goes: what is done stays, whatever becomes of the rest."""

    def __init__(self, folder: Path, split: str, num_instances: int) -> None:
        self.folder = folder
        self._facts: Tree = {"format": FORMAT, "split": split, "num_instances": num_instances}
        self._facts |= {"versions": installed_versions(), "results": []}

    def add(self, job: Job, rows: Sequence[Tree], scales: Scales) -> None:
        """Adds one model in one environment: its rows (as in progress.jsonl, with the errors of failed episodes), the
        success rates that it is read against (of several environments `<label>/<name>`, as in the rows), and the
        settings that it was played with.
        """
        self._facts["results"].append(
            {
                "model": job.model,
                "env": job.env,
                "iteration": job.iteration,
                "temperature": job.config.rollout.temperature,
                "warning": job.warning,
                "scale": {
                    f"{path}/{name}".lstrip("/"): rate
                    for path, scale in scales.items()
                    for name, rate in marks(scale).items()
                },
                "evaluations": list(rows),
                "config": job.config.model_dump(mode="json"),
            }
        )
        partial = (self.folder / FIGURES).with_suffix(".part")
        partial.write_text(json.dumps(self._facts, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, self.folder / FIGURES)

    def add_trajectories(self, job: Job, split: str, greedy: bool, played: Sequence[Trajectory]) -> None:
        """Appends the trajectories of one way of decoding, failed ones too, each with the job that it is of."""
        # `env` is a trajectory's own: its label among several.
        of = {"model": job.model, "environment": job.env, "split": split, "greedy": greedy}
        # What UTF-8 cannot hold, a lone surrogate, is written as the escape that JSON has for it.
        with (self.folder / TRAJECTORIES).open("a", encoding="utf-8", errors="backslashreplace") as file:
            for one in played:
                record = {"iteration": job.iteration, "member": 0, **of, **to_json(one)}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
