"""What an iteration costs beside generation, environments and the update.

    python -m benchmarks.iteration_overhead --out overhead.json

The embedded model on Sokoban, sampler and learner in one process; by default two groups of two trajectories of one
turn, which leave the fixed cost: RLlib's `train()`, the book-keeping of rollouts, filters, credit, rows, metrics,
publishing (`rest`), and the log of a run with its sample of trajectories (`log`). Numbers are CPU milliseconds of the
process with all its threads, medians over the iterations after the first two. Generation is the engine's `poll`,
environments are what their threads do in `reset` and `step`, the update is the learner's. Thoughts are not measured:
that costs forward passes, every fifth iteration. `--profile` prints where the rest goes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import logging
import os
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
import torch

from ragen_envs.text import TextEnv
from rllib_ragen.diagnostics.alarms import measured
from rllib_ragen.faults.private_names.of_rllib import local_learner
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.run.log import RunLog
from rllib_ragen.starpo.algorithm import StarPO
from rllib_ragen.starpo.config import StarPOConfig

WARM_UP = 2
"""First iterations, which are left out: chosen freely."""


class Clock:
    """A counter of the CPU seconds spent in some functions, by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def watch(self, owner: Any, method: str, name: str) -> None:
        """Counts the CPU time of calls of `owner.method` under `name`."""
        function: Callable[..., Any] = getattr(owner, method)
        self.spent[name] = 0.0

        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[name] += time.thread_time() - start

        setattr(owner, method, call)

    def take(self) -> dict[str, float]:
        """Returns the CPU seconds since the last call."""
        spent = dict(self.spent)
        self.spent.update(dict.fromkeys(spent, 0.0))
        return spent


def build(groups: int, group_size: int, turns: int) -> StarPO:
    """Builds an algorithm with little work."""
    config = StarPOConfig().environment("sokoban", env_config={"limits": {"max_turns": turns}})
    config.training(torch_threads=1, num_groups=groups, group_size=group_size).rollout(engine="hf")
    algo: StarPO = config.diagnostics(diagnostics_interval=0).build_algo()
    return algo


def measure(algo: StarPO, iterations: int, folder: Path, profile: cProfile.Profile | None) -> list[dict[str, float]]:
    """Measures the CPU seconds of each iteration's parts."""
    clock, log, found = Clock(), RunLog(folder), []
    clock.watch(HFEngine, "poll", "generation")
    clock.watch(TextEnv, "reset", "environments")
    clock.watch(TextEnv, "step", "environments")
    clock.watch(local_learner(algo.learner_group), "update", "update")
    for k in range(iterations + WARM_UP):
        clock.take()
        if profile is not None and k >= WARM_UP:
            profile.enable()
        start = time.process_time()
        result = algo.train()
        trained = time.process_time()
        log.train(k + 1, 0.0, measured(result["starpo"]), algo.last_trajectories(), algo.last_advantages())
        end = time.process_time()
        if profile is not None:
            profile.disable()
        spent = clock.take()
        found.append({**spent, "rest": trained - start - sum(spent.values()), "log": end - trained})
    log.close()
    return found[WARM_UP:]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--groups", type=int, default=2, help="task instances per iteration")
    parser.add_argument("--group-size", type=int, default=2, help="trajectories per instance")
    parser.add_argument("--turns", type=int, default=1, help="turns an episode may take")
    parser.add_argument("--iterations", type=int, default=30, help="iterations that count")
    parser.add_argument("--profile", action="store_true", help="print where the rest goes (numbers are higher then)")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    profile = cProfile.Profile() if args.profile else None
    load = os.getloadavg()[0]
    algo = build(args.groups, args.group_size, args.turns)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(algo, args.iterations, Path(folder), profile)
    algo.stop()
    ray.shutdown()
    results: dict[str, Any] = {name: getattr(args, name) for name in ("groups", "group_size", "turns", "iterations")}
    results |= {f"{name}_cpu_ms": round(1e3 * statistics.median(one[name] for one in found), 2) for name in found[0]}
    results["overhead_cpu_ms"] = round(1e3 * statistics.median(one["rest"] + one["log"] for one in found), 2)
    results |= {"load_before": load, "load_after": os.getloadavg()[0]}
    print(json.dumps(results, indent=2))
    if profile is not None:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
    if args.out:
        args.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
