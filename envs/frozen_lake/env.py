"""FrozenLake: reach the goal over slippery ice without falling into a hole."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import ClassVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

from ragen_envs.frozen_lake.lake import MOVES, Cell, Lake, generate_lake
from ragen_envs.frozen_lake.planning import BEST_HOW, best_success, transition_matrices
from ragen_envs.observation import Observation, Symbols, check_observation, check_symbols, in_form
from ragen_envs.spaces import MAX_STATE, AnyText
from ragen_envs.splits import Split, draw_instance
from ragen_envs.task import TextTask, chance_seed, check_pool_size, read_options
from ragen_envs.tree import Tree

_LETTERS = str.maketrans("P_OGX√", "A.HTD@")
"""Cells of a grid in other symbols, in the order of `_TOLD`."""
_TOLD = {
    "plain": "P player, _ ice, O hole, G goal, X player in a hole, √ player on the goal",
    "letters": "A player, . ice, H hole, T goal, D player in a hole, @ player on the goal",
}
_MOVE_BY_NAME = {name.lower(): index for index, name in enumerate(MOVES)}
_MOVE_NAMES = tuple(MOVES)


class FrozenLakeTask(TextTask[int]):
    """+1 at the goal, nothing else; the episode ends on the goal or in a hole. Gymnasium's dynamics.

    Args:
        size: rows and columns (≥ 2).
        p_frozen: chance of a cell to be ice, in (0, 1]; a path to the goal is guaranteed.
        success_rate: chance of the intended move, in (0, 1]; the rest slips to the left or right of it, evenly.
        observation: what `describe` tells: the grid, coordinates, or both.
        symbols: what cells of the grid are written with; `letters` asks whether a policy reads the rules.
        pool_size: instances per split that seeds are mapped to (seed modulo pool_size); None: no bound.

    Raises:
        ValueError: a setting out of its range.
    """

    title: ClassVar[str] = "FrozenLake"
    best_how: ClassVar[str] = BEST_HOW

    def __init__(
        self,
        *,
        size: int = 4,
        p_frozen: float = 0.9,
        success_rate: float = 0.8,
        observation: Observation = "both",
        symbols: Symbols = "plain",
        pool_size: int | None = None,
        render_mode: str | None = "ansi",
    ) -> None:
        if size < 2:
            raise ValueError(f"size must be ≥ 2, got {size}")
        for name, value in (("p_frozen", p_frozen), ("success_rate", success_rate)):
            if not 0 < value <= 1:
                raise ValueError(f"{name} must be in (0, 1], got {value}")
        check_observation(observation)
        check_symbols(symbols)
        check_pool_size(pool_size)
        self.observation = observation
        self.symbols = symbols
        self.success_rate = success_rate
        self.render_mode = render_mode
        self.action_space = gym.spaces.Discrete(len(MOVES))
        self.observation_space = AnyText(MAX_STATE)
        self._shape = (size, p_frozen)
        self._pool_size = pool_size
        self._lake: Lake | None = None
        self._dynamics: FrozenLakeEnv | None = None

    @property
    def lake(self) -> Lake:
        """The current map. Raises ResetNeeded before the first reset."""
        if self._lake is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._lake

    @property
    def player(self) -> Cell:
        """Where the player stands."""
        return divmod(int(self._running.s), self.lake.size)

    @property
    def _running(self) -> FrozenLakeEnv:
        if self._dynamics is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._dynamics

    def rules(self) -> str:
        """Returns the task in words."""
        symbols = _TOLD[self.symbols]
        where = "Coordinates are row column, counted from 0 at the top left"
        told = {"grid": symbols, "coordinates": where, "both": f"{symbols}. {where}"}
        slips = (
            "Moves go where you want"
            if self.success_rate == 1
            else f"A move goes where you want with a chance of {self.success_rate:.0%}, else it slips sideways"
        )
        return (
            "You walk over a frozen lake: reach the goal and do not fall into a hole. "
            f"{slips}; the edge holds you back. {told[self.observation]}. Actions: {', '.join(MOVES)}. "
            "The goal gives 1; a hole ends the game with nothing."
        )

    def describe(self) -> str:
        """Returns the state in the chosen observation form."""
        return _told(self.observation, self.symbols, self.lake, self.player)

    def describe_positions(self) -> str:
        """Returns the coordinate form on one line, whatever the observation."""
        return self.lake.coordinates(self.player).replace("\n", " ")

    def path_cells(self, plan: list[str]) -> list[Cell]:
        """Returns the cells that `plan` enters from here if no move slips."""
        cells, cell = [], self.player
        for move in plan:
            cell = self.lake.moved(cell, move)
            cells.append(cell)
        return cells

    def parse_action(self, text: str) -> int | None:
        """Returns Gymnasium's number of the move named `text` (Left, Down, Right, Up in any case), or None."""
        return _MOVE_BY_NAME.get(text.strip().lower())

    def legal_actions(self) -> list[str]:
        """Returns all four moves: one against the edge is legal, and stays in place unless it slips."""
        return list(MOVES)

    @property
    def success(self) -> bool:
        """Whether the player stands on the goal."""
        return self.player == self.lake.goal

    @property
    def instance_key(self) -> str:
        """The map's canonical form: see Lake.key."""
        return self.lake.key

    def solve(self) -> list[str] | None:
        """Returns a shortest path to the goal that avoids holes, as if no move slipped; None in a hole."""
        path = None if self.player in self.lake.holes else self.lake.shortest_path(self.player)
        return None if path is None else list(path)

    def best_success(self, max_turns: int, max_actions_per_turn: int, max_actions: int) -> float:
        """Returns the best policy's chance to reach the goal from here under the caps, slips included."""
        values = best_success(self._transitions(), self._goal, max_turns, max_actions_per_turn, max_actions)
        return float(values[int(self._running.s)])

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns the chance that the moves numbered in `plan` reach the goal from here, slips included."""
        transitions = self._transitions()
        chances = np.zeros(transitions.shape[1])
        chances[int(self._running.s)] = 1.0
        for index in plan:
            chances = chances @ transitions[index]
        return float(chances[self._goal])

    def _transitions(self) -> npt.NDArray[np.float64]:
        return _transitions_of(self.lake, self.success_rate)

    @property
    def _goal(self) -> int:
        return self.lake.goal[0] * self.lake.size + self.lake.goal[1]

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Draws the map that (seed, split) names; `outcome_seed` decides the slips. Without seeds: `np_random`."""
        super().reset(seed=seed)
        split, outcome_seed = read_options(seed, options)
        seed = self._seed_or_draw(seed, self._pool_size)
        outcome_seed = self._seed_or_draw(outcome_seed)
        self._lake = _lake_of(seed, split, *self._shape)
        # The transition table costs more than an episode; a shallow copy shares it, with its own position and chance.
        self._dynamics = copy(_dynamics_of(self.lake, self.success_rate))
        self._dynamics.reset(seed=chance_seed(outcome_seed))
        return self.describe(), {"instance_key": self.instance_key}

    def step(self, action: int) -> tuple[str, float, bool, bool, Tree]:
        """Makes one move. Raises ValueError for an action outside 0…3."""
        if not 0 <= int(action) < len(_MOVE_NAMES):
            raise ValueError(f"action must be 0…3 ({', '.join(_MOVE_NAMES)}), got {action}")
        _, reward, terminated, _, _ = self._running.step(int(action))
        return self.describe(), float(reward), bool(terminated), False, {}


# The members of a group, and the actions of a turn, pass through the same positions.
@lru_cache(maxsize=16_384)
def _told(form: Observation, symbols: Symbols, lake: Lake, player: Cell) -> str:
    grid = lake.grid(player) if symbols == "plain" else lake.grid(player).translate(_LETTERS)
    return in_form(form, grid, lake.coordinates(player))


@lru_cache(maxsize=16_384)
def _lake_of(seed: int, split: Split, size: int, p_frozen: float) -> Lake:
    return draw_instance(seed, split, lambda rng: generate_lake(rng, size, p_frozen), lambda lake: lake.key)


@lru_cache(maxsize=1_024)
def _dynamics_of(lake: Lake, success_rate: float) -> FrozenLakeEnv:
    return FrozenLakeEnv(desc=lake.rows(), is_slippery=success_rate < 1, success_rate=success_rate)


@lru_cache(maxsize=1_024)
def _transitions_of(lake: Lake, success_rate: float) -> npt.NDArray[np.float64]:
    return transition_matrices(_dynamics_of(lake, success_rate))
