"""The best success rate on a frozen lake under the caps, by dynamic programming over turns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

Values = npt.NDArray[np.float64]
_MAX_OPEN_LOOP = 5
"""Most actions of a turn that is searched exhaustively: chosen freely, the default turn with 4⁵ = 1,024 sequences."""
BEST_HOW = (
    "dynamic programming over turns (no look between the actions of a turn); an upper bound above 5 actions a turn"
)


def transition_matrices(dynamics: FrozenLakeEnv) -> Values:
    """Returns [actions, from, to] probabilities, read from Gymnasium's own table; goal and holes are absorbing."""
    num_states = dynamics.nrow * dynamics.ncol
    matrices = np.zeros((4, num_states, num_states))
    for state, by_action in dynamics.P.items():
        for action, outcomes in by_action.items():
            for chance, following, _, _ in outcomes:
                matrices[action, state, following] += chance
    return matrices


def best_success(transitions: Values, goal: int, max_turns: int, max_actions_per_turn: int, max_actions: int) -> Values:
    """Returns [states] the greatest chance to end on `goal` from each state.

    The actions of one turn are chosen together, before the first of them is played, as in a reply. Turns of one action
    are at least as good, if there are turns enough.
    """
    if max_turns >= max_actions or max_actions_per_turn > _MAX_OPEN_LOOP:
        max_actions = min(max_actions, max_turns * max_actions_per_turn)
        max_turns, max_actions_per_turn = max_actions, 1
    num_states = transitions.shape[1]
    at_goal: Values = np.eye(num_states)[goal]
    sequences = _sequences(transitions, min(max_actions_per_turn, max_actions))
    # values[n]: best chance with n actions left and the turns seen so far.
    values: Values = np.tile(at_goal, (max_actions + 1, 1))
    for _ in range(max_turns):
        previous = values.copy()
        for left in range(1, max_actions + 1):
            for length, chances in enumerate(sequences[:left], start=1):
                reached: Values = (chances @ previous[left - length]).max(axis=0)
                values[left] = np.maximum(values[left], reached)
    best: Values = values[max_actions]
    return best


def _sequences(transitions: Values, max_length: int) -> list[Values]:
    """Returns for each length 1…max_length the [4^length, from, to] probabilities of every sequence of that length."""
    by_length = [transitions]
    for _ in range(max_length - 1):
        longer = np.einsum("afm,smt->asft", transitions, by_length[-1])
        by_length.append(longer.reshape(-1, *transitions.shape[1:]))
    return by_length
