"""`train`: the run command as a function, for notebooks and scripts."""

from __future__ import annotations

import sys
from typing import Any

from rllib_ragen.config.load import algorithm_preset, merge, nest, preset
from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.run.__main__ import new_job, run
from rllib_ragen.run.result import RunResult, load_run

_STOPPED = (ExitCode.DONE, ExitCode.INTERRUPTED)


def train(env: str, /, *, algorithm: str | None = None, **keys: Any) -> RunResult:
    """Trains an agent, as `python -m rllib_ragen.run` does → its results.

    Args:
        env: environment or game: a name, or an import path `package.module:World`. Its own settings
            (tune_configs/) come before the defaults.
        algorithm: estimator, filter and loss by one word: `starpo_s`, `grpo` … (docs/algorithms.md).
        keys: keys of the config (`--keys` lists them): sections as mappings, `rollout={"num_groups": 8}`, or dotted
            names, `**{"rollout.num_groups": 8}`.

    Raises:
        ConfigError: an unknown key or an invalid value, before anything expensive starts.
        RuntimeError: the run stopped before its end by itself; its folder has the reason.
    """
    given = merge(*(nest(key, value) for key, value in keys.items()))
    job = new_job(preset(env), {} if algorithm is None else algorithm_preset(algorithm), given)
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
