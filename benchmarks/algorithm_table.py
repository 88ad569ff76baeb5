"""A table of algorithms: success on test instances after equally many sampled tokens, with and without a filter.

    python -m benchmarks.algorithm_table --jobs 2

Runs `python -m rllib_ragen.run` once per environment, algorithm, filter and seed. A finished run is a line of
docs/algorithm_table.jsonl and is never repeated; one that was cut off goes on from its checkpoint. So the same command,
given again, goes on, also with other environments or seeds. docs/algorithm_table.md shows all lines that are there.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.algorithm_page import write_page
from rllib_ragen.run.evaluation import find_baselines, scale_line
from rllib_ragen.run.folder import RunFolder

TOP = Path(__file__).parents[1]
RECORDS = TOP / "docs" / "algorithm_table.jsonl"
PAGE = TOP / "docs" / "algorithm_table.md"
ENVS = ("sokoban", "frozen_lake")
ALGORITHMS = ("ppo", "grpo", "dr_grpo", "rloo", "reinforce++_baseline", "dapo", "gspo", "gigpo")
FILTERS = ("none", "top_p")


@dataclass(frozen=True)
class Cell:
    """A run of the table."""

    env: str
    algorithm: str
    filter: str
    seed: int
    tokens: int
    """Number of reply tokens sampled for training after which the run ends."""

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return "-".join(map(str, asdict(self).values())).replace("+", "p")

    def settings(self) -> list[str]:
        """Returns the settings that differ from the environment's own."""
        return [
            *("--env", self.env, "--algorithm", self.algorithm, "--seed", str(self.seed), "--name", self.name),
            *("--iterations", "1000000", "--set", f"token_limit={self.tokens}", f"credit.filter={self.filter}"),
            *("credit.filter_value=0.9", "learner.torch_threads=1", "eval.interval=0", "diagnostics.interval=0"),
            *("checkpoint_interval=10", "keep_checkpoints=1"),
        ]


def recorded() -> dict[Cell, dict[str, Any]]:
    """Reads the finished runs."""
    rows = [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.exists() else []
    return {Cell(**{key: row[key] for key in Cell.__dataclass_fields__}): row for row in rows}


def play(cell: Cell, results: Path) -> str:
    """Runs a cell, or the rest of it, and records it → the error, or ''."""
    folder = results / cell.name
    if folder.exists() and RunFolder.open(folder).checkpoints():
        arguments = ["--resume", str(folder)]
    else:
        shutil.rmtree(folder, ignore_errors=True)
        arguments = [*cell.settings(), f"results_dir={results}"]
    results.mkdir(parents=True, exist_ok=True)
    with (results / f"{cell.name}.log").open("a") as log:
        code = subprocess.call([sys.executable, "-m", "rllib_ragen.run", *arguments], cwd=TOP, stdout=log, stderr=log)
    if code:
        return f"{cell.name}: exit code {code}, see {log.name}"
    with RECORDS.open("a") as records:
        records.write(json.dumps({**asdict(cell), **reached(folder)}) + "\n")
    return ""


def reached(folder: Path) -> dict[str, Any]:
    """Returns iterations, tokens, seconds of training, and success on test instances before and after."""
    rows = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    last = [row for row in rows if "split" not in row][-1]
    tests = [row for row in rows if row.get("split") == "test"]
    found = {
        "greedy" if greedy else "sampled": [row["success"] for row in tests if row["greedy"] is greedy]
        for greedy in (False, True)
    }
    return {
        "scale": scale_line(find_baselines(RunFolder.open(folder).config())),
        "iterations": last["iteration"],
        "sampled_tokens": int(last["num_reply_tokens_lifetime"]),
        "time_s": round(last["time_s"]),
        "instances": tests[-1]["num_instances"],
        "distinct_instances": tests[-1]["distinct_instances"],
        **{way: [round(success, 4) for success in (values[0], values[-1])] for way, values in found.items()},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Plays the missing cells → 1 if a run failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--envs", nargs="+", default=list(ENVS), choices=ENVS)
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS), choices=ALGORITHMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--tokens", type=int, default=200_000, help="reply tokens sampled for training, per run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time; each works on one core")
    parser.add_argument("--results", type=Path, default=TOP / "results" / "algorithm_table", help="run folders")
    options = parser.parse_args(arguments)
    wanted = itertools.product(options.envs, options.seeds, FILTERS, options.algorithms)
    cells = [Cell(env, algorithm, filter_, seed, options.tokens) for env, seed, filter_, algorithm in wanted]
    done = recorded()
    missing = [cell for cell in cells if cell not in done]
    print(f"{len(cells)} runs, {len(cells) - len(missing)} done, {len(missing)} to do", flush=True)
    failures = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, failure in enumerate(pool.map(lambda cell: play(cell, options.results), missing), 1):
            print(failure or f"{number}/{len(missing)}", flush=True)
            failures += [failure] if failure else []
            write_page(PAGE, list(recorded().values()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
