"""Trains for a while under random faults, and checks for growth of memory, lost groups and slow-down.

    python -m benchmarks.soak --minutes 15 --out soak.json

Sokoban with the embedded model, 2 env runners. Every minute or so a runner is killed or stopped (SIGSTOP, so that
it hangs); one environment step in 500 raises, one in 2000 hangs. Checkpoints are saved as in a run. Afterwards:

- memory: the unique memory (USS) of the driver, and of every runner that lived long enough, is flat: the median of its
  last third exceeds that of its middle third by at most 3 % and 10 MiB;
- groups: every iteration had all of its groups, and as many trajectories as were asked for;
- throughput: trajectories per CPU second (other work on the machine disturbs these less than those per second), median
  of the last third over that of the middle third, at least 0.85.

The first third is warm-up. Exit code 0 if all hold, 1 if not, 2 if there were too few iterations to tell.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from ragen_envs.registry import make_task
from ragen_envs.text import TextEnv, TextLimits

GROUPS, GROUP_SIZE = 8, 4
"""Rooms per iteration and trajectories per room: chosen freely, for short iterations."""
ENV_TIMEOUT_S, HANG_TIMEOUT_S = 10.0, 45.0
"""Timeouts of the run in seconds: chosen freely, so short that a fault does not fill the time."""
RAISES, HANGS = 1 / 500, 1 / 2000
"""Chances of a step to raise and to hang: chosen freely."""
SLACK_MIB, SLACK_SHARE, SLOWEST = 10.0, 0.03, 0.85
"""Allowed growth of memory, in MiB and as a share, and the least share of throughput: chosen freely."""
MIN_SAMPLES = 30
"""Least iterations of a runner for its memory to be judged: chosen freely, ten for each third."""
COUNTED = ("num_failed", "num_lost_runners", "num_hung_runners", "num_replayed", "num_groups")


class Flaky(TextEnv):
    """Sokoban that raises or hangs at random."""

    def __init__(self) -> None:
        super().__init__(make_task("sokoban"), TextLimits(max_turns=3, prompt_style="brief"))
        self._rng = random.Random()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Makes a step, as TextEnv does, or raises, or hangs."""
        draw = self._rng.random()
        if draw < RAISES:
            raise RuntimeError("a fault on purpose")
        if draw < RAISES + HANGS:
            time.sleep(3 * ENV_TIMEOUT_S)
        return super().step(action)


@dataclass
class Sample:
    """Measurements of one iteration."""

    at_s: float
    wall_s: float
    cpu_s: float
    """CPU seconds of driver and runners."""
    trajectories: int
    counts: dict[str, float]
    uss_mib: dict[str, float]
    """Unique memory in MiB, by `driver` or `runner <pid>`."""


@dataclass
class Hurter:
    """A thread that kills or stops a runner every now and then, until it is told to end."""

    every_s: float
    done: threading.Event = field(default_factory=threading.Event)
    faults: list[tuple[float, str]] = field(default_factory=list)

    def run(self) -> None:
        """Hurts runners until the end, in its own thread."""
        started, rng = time.monotonic(), random.Random(0)
        while not self.done.wait(rng.uniform(0.5, 1.5) * self.every_s):
            victims = runners_of(os.getpid())
            if victims:
                number = rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP))
                self.faults.append((round(time.monotonic() - started, 1), number.name))
                rng.choice(victims).send_signal(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command → 0 if all checks hold."""
    parser = argparse.ArgumentParser(description="Continuous training under random faults.")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--fault-every-s", type=float, default=60)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    samples, faults = soak(options.minutes * 60, options.fault_every_s)
    if len(samples) < 3 * MIN_SAMPLES:
        print(f"{len(samples)} iterations are too few to judge, at least {3 * MIN_SAMPLES} are needed: more --minutes")
        return 2
    verdict = judge(samples)
    if options.out is not None:
        found = {
            "minutes": options.minutes,
            "faults": faults,
            "verdict": verdict,
            "samples": list(map(asdict, samples)),
        }
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    tell(samples, faults, verdict)
    return 0 if all(check["holds"] for check in verdict.values()) else 1


def soak(seconds: float, every_s: float) -> tuple[list[Sample], list[tuple[float, str]]]:
    """Trains for `seconds` under faults → (samples, faults)."""
    import ray
    from ray.tune.registry import register_env

    from rllib_ragen.faults.watchdog import Watchdog
    from rllib_ragen.starpo.config import StarPOConfig

    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    register_env("flaky", lambda context: Flaky())
    config = StarPOConfig().environment("flaky").env_runners(num_env_runners=2)
    config.rollout(engine="hf", env_timeout_s=ENV_TIMEOUT_S).fault_tolerance(hang_timeout_s=HANG_TIMEOUT_S)
    config.training(num_groups=GROUPS, group_size=GROUP_SIZE, torch_threads=1)
    samples: list[Sample] = []
    started = time.monotonic()
    with Watchdog(print, report_after_s=20, hang_timeout_s=600), tempfile.TemporaryDirectory() as folder:
        algo = config.build_algo()
        hurter = Hurter(every_s)
        threading.Thread(target=hurter.run, daemon=True).start()
        while time.monotonic() - started < seconds:
            samples.append(iterate(algo, started))
            if len(samples) % 20 == 0:
                algo.save_checkpoint(str(Path(folder) / "checkpoint"))
        hurter.done.set()
        algo.stop()
    return samples, hurter.faults


def iterate(algo: Any, started: float) -> Sample:
    """Measures one iteration."""
    before, cpu_before = time.monotonic(), cpu_s()
    found = algo.train()["starpo"]
    wall_s = time.monotonic() - before
    uss = {"driver": uss_mib(psutil.Process())}
    uss |= {f"runner {runner.pid}": uss_mib(runner) for runner in runners_of(os.getpid())}
    counts = {name: float(found[name]) for name in COUNTED}
    spent = sum(max(0.0, now - cpu_before.get(pid, 0.0)) for pid, now in cpu_s().items())
    return Sample(
        round(time.monotonic() - started, 1), wall_s, spent, len(algo.last_trajectories()), counts,
        {name: mib for name, mib in uss.items() if mib},
    )  # fmt: skip


def runners_of(pid: int) -> list[psutil.Process]:
    """Returns the env runners' processes, including stopped ones."""
    found = []
    for one in psutil.Process(pid).children(recursive=True):
        try:
            if any("LLMEnvRunner" in word for word in one.cmdline()[:1]):
                found.append(one)
        except psutil.Error:
            continue
    return found


def cpu_s() -> dict[int, float]:
    """Returns the CPU seconds so far of driver and runners, by pid."""
    found = {}
    for one in [psutil.Process(), *runners_of(os.getpid())]:
        try:
            times = one.cpu_times()
            found[one.pid] = times.user + times.system
        except psutil.Error:
            continue
    return found


def uss_mib(process: psutil.Process) -> float:
    """Returns the unique memory in MiB; 0 for a process that is gone."""
    try:
        return float(process.memory_full_info().uss) / 2**20
    except psutil.Error:
        return 0.0


def judge(samples: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    """Returns by check whether it holds, and its figures."""
    series: dict[str, list[float]] = {}
    for sample in samples:
        for name, mib in sample.uss_mib.items():
            series.setdefault(name, []).append(mib)
    long = {name: values for name, values in series.items() if name == "driver" or len(values) >= MIN_SAMPLES}
    memory = {name: middle_and_last(values) for name, values in long.items()}
    flat = all(last <= middle * (1 + SLACK_SHARE) + SLACK_MIB for middle, last in memory.values())
    short = [
        number
        for number, sample in enumerate(samples, start=1)
        if sample.counts["num_groups"] != GROUPS or sample.trajectories != GROUPS * GROUP_SIZE
    ]
    middle, last = middle_and_last([sample.trajectories / sample.cpu_s for sample in samples])
    wall = middle_and_last([sample.trajectories / sample.wall_s for sample in samples])
    return {
        "memory": {"holds": flat and len(memory) >= 2, "uss_mib_middle_and_last_third": memory},
        "groups": {"holds": not short, "iterations_with_a_lost_group": short},
        "throughput": {
            "holds": last >= SLOWEST * middle,
            "trajectories_per_cpu_s_middle_and_last_third": (middle, last),
            "trajectories_per_s_middle_and_last_third": wall,
        },
    }


def middle_and_last(values: Sequence[float]) -> tuple[float, float]:
    """Returns the medians of the middle and the last third."""
    third = max(1, len(values) // 3)
    return statistics.median(values[third : 2 * third] or values), statistics.median(values[-third:])


def tell(samples: Sequence[Sample], faults: Sequence[tuple[float, str]], verdict: dict[str, dict[str, Any]]) -> None:
    """Prints the results in a few lines."""
    total = {name: sum(sample.counts[name] for sample in samples) for name in COUNTED}
    kills = [name for _, name in faults]
    print(
        f"{len(samples)} iterations in {samples[-1].at_s:.0f} s: {kills.count('SIGKILL')} runners killed,"
        f" {kills.count('SIGSTOP')} stopped; {total['num_lost_runners']:.0f} lost, {total['num_hung_runners']:.0f} of"
        f" them hung, {total['num_replayed']:.0f} episodes played again, {total['num_failed']:.0f} failed"
    )
    for name, (middle, last) in verdict["memory"]["uss_mib_middle_and_last_third"].items():
        print(f"  {name:14} {middle:7.1f} → {last:7.1f} MiB")
    per_cpu = verdict["throughput"]["trajectories_per_cpu_s_middle_and_last_third"]
    print(f"  trajectories per CPU second {per_cpu[0]:.2f} → {per_cpu[1]:.2f}")
    for name, check in verdict.items():
        print(f"{'holds' if check['holds'] else 'BROKEN':7} {name}")


if __name__ == "__main__":
    sys.exit(main())
