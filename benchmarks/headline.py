"""The published figures: recorded from finished runs, written into the docs, and checked against what the code is now.

    python -m benchmarks.headline record results/RUN results/RUN results/RUN --out docs/figures/sokoban.json
    python -m benchmarks.headline check        # do they still hold? tells what has changed since

A record holds what the figures depend on: the weights that the runs began with, their settings, what a split holds, and
the versions, threads and commit they ran with. `check` compares the first three, which decide what is measured;
`tests/house/test_published_figures.py` does so in `make test`, and in `make slow` measures the untrained model again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragen_envs.instances import evaluated_numbers
from ragen_envs.registry import make_task
from ragen_envs.splits import instance_seed
from rllib_ragen.config.load import preset, read_yaml
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.models.folder import model_folder
from rllib_ragen.run.evaluation import find_baselines, marks
from rllib_ragen.starpo.checks.build_config import build_config

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
PAGE = ROOT / "docs" / "embedded_model.md"
_NO_MATTER = (
    "name",
    "results_dir",
    "seed",
    "checkpoint_interval",
    "keep_checkpoints",
    "fault",
    "alarms",
    "diagnostics",
)
"""Config keys on which a run's figures do not depend (the seed is recorded with each run)."""
_EXPLAINED = {
    "free": "untrained",
    "format forced": "untrained, replies made to begin with `<think>`",
    "plan forced": "untrained, replies made to begin with `<think>Player`: no habit left to give up",
    "further demonstrations": "no reinforcement: {cpu_seconds:.0f} CPU seconds on the solver's demonstrations of these",
}
Record = dict[str, Any]


def record(folders: Sequence[Path], explanations: Mapping[str, Any], commit: str) -> Record:
    """Makes the record of runs that differ only in their seed.

    Raises:
        ValueError: they differ in something else, or one was not tested before and after.
    """
    configs = [build_config(read_yaml(folder / "config.yaml")) for folder in folders]
    if len({json.dumps(settings_of(config), sort_keys=True) for config in configs}) > 1:
        raise ValueError("the runs differ in more than their seed")
    runs = [_run(folder, config) for folder, config in zip(folders, configs, strict=True)]
    return {
        "env": configs[0].env.name,
        **inputs(configs[0]),
        "commit": commit,
        "machine": {"processor": _processor(), "threads": configs[0].learner.torch_threads},
        "versions": json.loads((folders[0] / "versions.json").read_text()),
        "explanations": dict(explanations),
        "runs": runs,
    }


def inputs(config: RunConfig) -> Record:
    """Returns the inputs of a task's figures: the model's weights, the settings, and the test instances."""
    weights = (model_folder(config.model.path) / "model.safetensors").read_bytes()
    count = config.eval.num_test_instances
    task = make_task(config.env.name, **config.env.task)
    numbers = evaluated_numbers(config.env.name, config.env.task, "test", count)
    keys = [
        task.reset(seed=instance_seed("test", number), options={"split": "test"})[1]["instance_key"]
        for number in numbers
    ]
    return {
        "model_sha256": hashlib.sha256(weights).hexdigest(),
        "settings": settings_of(config),
        "test_instances": len(keys),
        "test_instances_sha256": hashlib.sha256("\n\n".join(keys).encode()).hexdigest(),
    }


def settings_of(config: RunConfig) -> Record:
    """Returns the settings that figures depend on."""
    tree: Record = json.loads(config.model_dump_json(exclude=set(_NO_MATTER)))
    tree["learner"].pop("torch_threads")
    return tree


def differences(recorded: Record) -> list[str]:
    """Returns the inputs that have changed since the figures were recorded; empty while they hold."""
    now = inputs(build_config(preset(recorded["env"])))
    changed = [
        name for name in ("model_sha256", "test_instances", "test_instances_sha256") if recorded[name] != now[name]
    ]
    before, after = (_flat(tree["settings"]) for tree in (recorded, now))
    # A key that is new since then has a default that does what was done before.
    changed += [key for key in sorted(before) if before[key] != after.get(key)]
    return changed


def success_rates(recorded: Record, greedy: bool, when: int) -> list[float]:
    """Returns test success in percent, by seed: `when` 0 before training, -1 after."""
    return [100 * run["test"]["greedy" if greedy else "T = 1"][when] for run in recorded["runs"]]


def sentence(recorded: Record) -> str:
    """Formats the result: `T = 1: 12.5 → 34.0 % (33.2, 34.4, 34.4); greedy: …`."""
    parts = []
    for greedy in (False, True):
        before, after = success_rates(recorded, greedy, 0), success_rates(recorded, greedy, -1)
        each = ", ".join(f"{value:.1f}" for value in after)
        name = "greedy" if greedy else "T = 1"
        parts.append(f"{name} {before[0]:.1f} → {statistics.mean(after):.1f} % ({each})")
    return "; ".join(parts)


def table(recorded: Record) -> str:
    """Returns success beside floor, ceiling and explanations, as a Markdown table."""
    scale = marks(find_baselines(build_config(preset(recorded["env"]))))
    count = recorded["test_instances"]
    lines = [f"| {count} different test instances | T = 1 | greedy |", "|---|---|---|"]
    for name in ("random", "best blind plan"):
        lines.append(f"| {name} | {100 * scale[name]:.1f} % | |")
    for name, told in _EXPLAINED.items():
        found = recorded["explanations"].get(name)
        if found is not None:
            lines.append(
                f"| {told.format(**found)} | {_percent(found['T = 1'], count)} | {_percent(found['greedy'], count)} |"
            )
    trained = [_trained(recorded, greedy) for greedy in (False, True)]
    lines.append(
        f"| **trained by reinforcement**, mean of {len(recorded['runs'])} seeds (each) | {' | '.join(trained)} |"
    )
    lines.append(f"| best possible | {100 * scale['best possible']:.1f} % | |")
    return "\n".join(lines) + "\n"


def write(page: Path, recorded: Record) -> None:
    """Replaces the text between the page's marks of the environment."""
    begin, end = f"<!-- figures of {recorded['env']} -->", "<!-- end -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    if not found:
        raise ValueError(f"{page} has no mark {begin}")
    page.write_text(f"{before}{begin}\n\n{table(recorded)}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def _percent(rate: float, count: int) -> str:
    return f"{100 * rate:.1f} ± {100 * math.sqrt(rate * (1 - rate) / count):.1f} %"


def _trained(recorded: Record, greedy: bool) -> str:
    after = success_rates(recorded, greedy, -1)
    return f"**{statistics.mean(after):.1f} %** ({', '.join(f'{value:.1f}' for value in after)})"


def _run(folder: Path, config: RunConfig) -> Record:
    rows = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    tested: dict[str, list[float]] = {}
    for row in rows:
        if row.get("split") == "test":
            tested.setdefault("greedy" if row["greedy"] else "T = 1", []).append(round(row["success"], 4))
    if {len(values) for values in tested.values()} != {2}:
        raise ValueError(f"{folder} was not tested before and after training")
    trained = [row for row in rows if "time_s" in row]
    return {
        "seed": config.seed,
        "iterations": trained[-1]["iteration"],
        "seconds": round(trained[-1]["time_s"]),
        "reply_tokens": int(trained[-1]["num_reply_tokens_lifetime"]),
        "test": tested,
    }


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Record:
    found: Record = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def _commit() -> str:
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.strip()


def _processor() -> str:
    names = [
        line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return f"{len(names)} × {names[0]}" if names else platform.processor()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command → 1 if figures no longer hold, 2 on bad input."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="from run folders that differ in their seed")
    recording.add_argument("runs", nargs="+", type=Path)
    recording.add_argument("--explanations", type=Path, help="JSON of benchmarks/explanations.py")
    recording.add_argument("--commit", help="of the code that ran (default: the checked-out one)")
    recording.add_argument("--out", type=Path, required=True)
    commands.add_parser("check", help="whether the recorded figures still hold")
    options = parser.parse_args(arguments)
    if options.command == "record":
        explanations = json.loads(options.explanations.read_text()) if options.explanations else {}
        try:
            found = record(options.runs, explanations, options.commit or _commit())
        except ValueError as error:
            print(f"headline: {error}", file=sys.stderr)
            return 2
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        write(PAGE, found)
        print(sentence(found))
        return 0
    stale = 0
    for path in sorted(FIGURES.glob("*.json")):
        recorded = json.loads(path.read_text(encoding="utf-8"))
        if "runs" not in recorded:
            continue
        changed = differences(recorded)
        stale += bool(changed)
        print(f"{path.name}: " + (f"no longer holds, changed: {', '.join(changed)}" if changed else sentence(recorded)))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
