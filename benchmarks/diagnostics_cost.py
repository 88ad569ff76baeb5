"""What the measurements of docs/diagnostics.md cost: their share of a run's CPU time, at the frequency that is set.

    python -m benchmarks.diagnostics_cost --env sokoban --out diagnostics_cost.json

One run in this process, sampler and learner included, at the environment's own settings. Iterations that measure and
iterations that do not are timed by themselves, in CPU seconds of the process, which other work on the machine disturbs
less than the clock; their medians are weighed as the interval weighs them. The first iteration warms up and is left
out. Information and gradients are measured in turns, never in the same iteration.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import time
from pathlib import Path

from rllib_ragen.config.load import preset
from rllib_ragen.run.start_ray import start_ray
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.starpo.config import StarPOConfig


def main() -> None:
    """Prints and writes the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="sokoban", help="environment name [sokoban]")
    parser.add_argument("--rounds", type=int, default=4, help="iterations of each kind [4]")
    parser.add_argument("--out", type=Path, help="JSON file")
    options = parser.parse_args()
    logging.getLogger("ray").setLevel(logging.ERROR)
    base = build_config(preset(options.env))
    interval = base.diagnostics.interval
    config = build_config(preset(options.env), {"rollout": {"engine": "hf"}, "learner": {"torch_threads": 1}})
    start_ray(config)
    algo: StarPO = StarPOConfig.from_run_config(config).build_algo()
    seconds = measure(algo, options.rounds)
    algo.stop()
    plain = statistics.median(seconds["plain"])
    result: dict[str, object] = {"env": options.env, "interval": interval, "iteration_cpu_s": round(plain, 3)}
    for kind in ("information", "gradients"):
        extra = statistics.median(seconds[kind]) - plain
        result[f"{kind}_cpu_s"] = round(extra, 3)
        result[f"{kind}_share_percent"] = round(100 * extra / (interval * plain + extra), 1)
    text = json.dumps(result, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


def measure(algo: StarPO, rounds: int) -> dict[str, list[float]]:
    """Measures CPU seconds of iterations that measure nothing, information, or gradients."""
    seconds: dict[str, list[float]] = {"plain": [], "information": [], "gradients": []}
    section = algo._diagnostics
    every = {"plain": (0, 0), "information": (1, 0), "gradients": (0, 1)}
    for count in range(rounds + 1):
        for kind, (information, gradients) in every.items():
            algo._diagnostics = section.model_copy(update={"interval": information, "gradients_interval": gradients})
            started = time.process_time()
            algo.train()
            if count:
                seconds[kind].append(time.process_time() - started)
    return seconds


if __name__ == "__main__":
    main()
