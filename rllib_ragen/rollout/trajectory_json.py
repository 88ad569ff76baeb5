"""A trajectory as one line of JSON, and back, with everything that a replay through the model needs."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from ragen_envs.tree import Tree
from rllib_ragen.types import StopReason, Trajectory, Turn

_PLAIN = ("group_id", "env_seed", "outcome_seed", "success", "module_id", "agent_id", "error", "outcome")
_ADDED: Tree = {"instance_key": "", "rewards": {}, "env": "", "level": -1}
"""What earlier versions did not write, with what it then is."""
_TURN_PLAIN = ("prompt", "state", "reply", "reward", "valid", "num_actions", "policy_version", "cached_tokens")
_TURN_ADDED: Tree = {"raw_reward": None}


def to_json(trajectory: Trajectory) -> Tree:
    """Converts a trajectory to plain Python values; float32 log-probs are restored bit for bit."""
    return {
        **{name: _plain(getattr(trajectory, name)) for name in (*_PLAIN, *_ADDED)},
        "stop_reason": trajectory.stop_reason.value,
        "return": trajectory.episode_return,
        "turns": [
            {
                **{name: _plain(getattr(turn, name)) for name in (*_TURN_PLAIN, *_TURN_ADDED)},
                "prompt_ids": turn.prompt_ids.tolist(),
                "reply_ids": turn.reply_ids.tolist(),
                "logprobs": turn.logprobs.tolist(),
            }
            for turn in trajectory.turns
        ],
    }


def from_json(record: Tree) -> Trajectory:
    """Inverts `to_json`. Raises KeyError or ValueError for anything else."""
    turns = [
        Turn(
            prompt_ids=np.array(turn["prompt_ids"], np.int32),
            reply_ids=np.array(turn["reply_ids"], np.int32),
            logprobs=np.array(turn["logprobs"], np.float32),
            **{name: turn[name] for name in _TURN_PLAIN},
            **{name: turn.get(name, other) for name, other in _TURN_ADDED.items()},
        )
        for turn in record["turns"]
    ]
    plain = {name: record[name] for name in _PLAIN}
    added = {name: record.get(name, copy(other)) for name, other in _ADDED.items()}
    return Trajectory(turns=turns, stop_reason=StopReason(record["stop_reason"]), **plain, **added)


def _plain(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else value
