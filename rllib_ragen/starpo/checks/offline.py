"""What the keys of a run must say together where trajectories are stored, or come from a store."""

from __future__ import annotations

from pathlib import Path

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.paths import PLAYED
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.rollout.trajectory_files import read_trajectories, trajectory_files


def check_offline(config: RunConfig) -> None:
    """Checks `offline`, of every file of `offline.input` the first line; the others are checked when they are read.

    Raises:
        ConfigError: keys that do not fit together, no such file, or one that is none of trajectories.
    """
    offline, credit = config.offline, config.credit
    if offline.output is not None and Path(offline.output).exists() and not Path(offline.output).is_dir():
        raise ConfigError(
            f"offline.output={offline.output} is no folder; allowed: a folder, or a path where none is yet"
        )
    if offline.input == PLAYED:
        return
    refused = {
        f"offline.output={offline.output}": offline.output is not None,
        f"rollout.overlap={config.rollout.overlap}": config.rollout.overlap != "off",
        f"credit.dynamic_sampling_rounds={credit.dynamic_sampling_rounds}": credit.dynamic_sampling_rounds > 0,
        "rewards": bool(config.rewards),
        "multi_agent.mode=league": config.multi_agent.mode == "league",
        "env.curriculum": not config.envs and config.env.curriculum is not None,
        **{f"envs[{k}].curriculum": entry.curriculum is not None for k, entry in enumerate(config.envs)},
    }
    for key, given in refused.items():
        if given:
            raise ConfigError(
                f"{key} with offline.input={offline.input}, from which trajectories are read and none is played;"
                f" allowed: another {key.partition('=')[0]}, or offline.input={PLAYED}"
            )
    for path in trajectory_files(offline.input):
        next(read_trajectories(path), None)
