"""`train`: the run command as a function, for notebooks and scripts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ragen_envs.tree import Tree
from rllib_ragen.config.load import algorithm_preset, foundation, merge, nest
from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.run.__main__ import new_job, run
from rllib_ragen.run.result import RunResult, load_run

_STOPPED = (ExitCode.DONE, ExitCode.INTERRUPTED)


def train(env: str | Sequence[Mapping[str, Any]], /, *, algorithm: str | None = None, **keys: Any) -> RunResult:
    """Trains an agent, as `python -m rllib_ragen.run` does, and returns what it left.

    Args:
        env: environment or game: a name, or an import path `package.module:World`. Its own settings
            (tune_configs/) come before the defaults. Or several environments, each with the keys of an entry of
            `envs`: `[{"name": "sokoban", "weight": 2}, {"name": "frozen_lake"}]`.
        algorithm: estimator, filter and loss by one word: `starpo_s`, `grpo` … (docs/algorithms.md).
        keys: keys of the config (`--keys` lists them): sections as mappings, `rollout={"num_groups": 8}`, or dotted
            names, `**{"rollout.num_groups": 8}`.

    Raises:
        ConfigError: an unknown key or an invalid value, before anything expensive starts.
        RuntimeError: the run stopped before its end by itself; its folder has the reason.
    """
    given = merge(*(nest(key, value) for key, value in keys.items()))
    chosen: Tree = {"env": {"name": env}} if isinstance(env, str) else {"envs": list(env)}
    base = merge(foundation(given, chosen), chosen)
    job = new_job(base, {} if algorithm is None else algorithm_preset(algorithm), given)
    was_there = _ray_is_there()
    try:
        code = run(job)
    finally:
        if not was_there and _ray_is_there():
            import ray

            # The next run may ask for more CPUs than this one's Ray was started with.
            ray.shutdown()
    if code not in _STOPPED:
        raise RuntimeError(f"the run in {job.folder.path} stopped with exit code {code} (docs/faults.md)")
    return load_run(job.folder.path)


def _ray_is_there() -> bool:
    return "ray" in sys.modules and bool(sys.modules["ray"].is_initialized())
