"""Where rewards sit on the token axis."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rllib_ragen.types import Trajectory


def token_rewards(trajectory: Trajectory, turn_rewards: bool) -> npt.NDArray[np.float64]:
    """[num_tokens] raw rewards on trained tokens; their sum is the episode's return (0 without a trained token).

    turn_rewards: each turn's reward on that turn's last sampled token; otherwise everything on the episode's last one.
    The reward of a turn without a sampled token goes to the last sampled token before it, else to the first one.
    """
    turn_index = trajectory.turn_index()
    rewards = np.zeros(len(turn_index), np.float64)
    trained = np.flatnonzero(turn_index >= 0)
    if len(trained) == 0:
        return rewards
    if not turn_rewards:
        rewards[trained[-1]] = trajectory.episode_return
        return rewards
    for k, turn in enumerate(trajectory.turns):
        last = int(np.searchsorted(turn_index[trained], k, side="right")) - 1
        rewards[trained[max(last, 0)]] += turn.reward
    return rewards
