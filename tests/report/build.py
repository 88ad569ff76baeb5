"""Run folders made by the code that makes them, without a run: for the tests of the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rllib_ragen.diagnostics.gradient_buckets import gradient_metric_names
from rllib_ragen.diagnostics.information_probe import probe_metric_names
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.run.log import RunLog
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.types import StopReason, Trajectory, Turn
from tests.rollout.families import tokenizer_of

REPLY = "<think>no plan</think><answer>Up || Left</answer>"


def played(group: str, replies: Sequence[str], reward: float, prompt: str = "Turn 1\n#P#") -> Trajectory:
    """A trajectory of sokoban's kind with these replies."""
    tokenizer = tokenizer_of("embedded")
    turns = []
    for reply in replies:
        ids = np.array(tokenizer.encode(reply, add_special_tokens=False), np.int32)
        logprobs = np.full(len(ids), -0.5, np.float32)
        turn = Turn(np.arange(3, dtype=np.int32), ids, logprobs, reward, 0, num_actions=2, prompt=prompt, reply=reply)
        turns.append(turn)
    return Trajectory(group, 0, 0, turns, StopReason.GOAL if reward > 0 else StopReason.MAX_TURNS, success=reward > 0)


def make_run(
    results: Path,
    name: str,
    *,
    seed: int = 0,
    iterations: int = 6,
    reply: str = REPLY,
    prompt: str = "Turn 1\n#P#",
    **learner: Any,
) -> Path:
    """A run of `iterations` whose success rises, with an alarm, measurements and trajectories."""
    config = build_config({"results_dir": str(results), "seed": seed, "iterations": 50, "learner": learner})
    folder = RunFolder.create(config, name)
    log = RunLog(folder.path)
    for i in range(iterations + 1):
        if i % 3 == 0:
            for greedy in (False, True):
                success = 0.2 + 0.1 * i + 0.01 * seed
                instances = {f"{k:012x}": float(k < round(50 * success)) for k in range(50)}
                log.evaluation(
                    i, "val", greedy, {"success": success, "num_instances": 50.0, "num_failed": 0.0}, instances
                )
        if i == iterations:
            break
        trajectories = [played("7", [reply, reply], 1.0, prompt), played("7", [reply], -1.0, prompt)]
        trajectories.append(played("8", [reply], -1.0, prompt))
        advantages = [np.where(t.turn_index() >= 0, 0.5, 0).astype(np.float32) for t in trajectories[:2]]
        log.train(i + 1, 60.0 * (i + 1), _metrics(i, seed), trajectories, [*advantages, None])
    log.alarm({"iteration": 4, "alarm": "entropy_collapse", "mode": "warn", "message": "the entropy has been low"})
    log.close()
    tokenizer_of("embedded").save_pretrained(folder.export)
    return folder.path


def _metrics(i: int, seed: int) -> dict[str, Any]:
    measured: dict[str, Any] = dict.fromkeys(probe_metric_names(), 0.2 + 0.05 * i if i % 2 == 0 else None)
    for sample in ("first_turn", "any_turn"):
        measured[f"{sample}_regime"] = 2.0 if i % 2 == 0 else None
    measured |= {name: 0.1 * int(name.split("_")[1]) if i % 2 == 0 else None for name in gradient_metric_names()}
    names = ("time_rollout_s", "time_update_s", "time_diagnostics_s", "group_reward_std", "entropy", "grad_norm")
    return {
        "success": 0.3 + 0.02 * i + 0.1 * seed,
        "return_mean": i + seed,
        **dict.fromkeys(names, 1.0 + i),
        **measured,
    }
